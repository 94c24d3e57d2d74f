// Frames on a control socket, as bytes (sans-I/O).
//
//      offset  0   u32  bytes of the body
//              4   u16  type
//              6   u8   space: who understands the type
//              7   u8   zero
//              8   body
//              ..  16 bytes of MAC, once both sides are authenticated
//
// MAC = first half of HMAC-SHA256(key of this direction, u64 count of sealed frames before this one
// | header | body). The count is not sent: a frame that is dropped, repeated or moved does not
// verify. Limits are checked on the header, before a byte of the body is kept.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mesh/crypto.h"

namespace asyncmesh::mesh {

enum class Space : uint8_t { kHandshake = 0, kMesh = 1, kApplication = 2 };

inline constexpr size_t kFrameHeaderBytes = 8;
inline constexpr size_t kFrameMacBytes = 16;
inline constexpr size_t kMaxBody = 1024 * 1024;  // of an authenticated frame
inline constexpr size_t kMaxHandshakeBody = 4096;

struct ControlFrame {
  Space space = Space::kHandshake;
  uint16_t type = 0;
  ByteSpan body;  // valid until the reader is touched again
};

class FrameWriter {
 public:
  // All later frames are sealed. False: OpenSSL failed.
  [[nodiscard]] bool seal_with(const Digest& key) { return mac_.set_key(key); }
  // Appends one frame to `out`. False: OpenSSL failed, `out` is as before.
  [[nodiscard]] bool append(const ControlFrame& frame, std::vector<std::byte>& out);

 private:
  Hmac mac_;
  uint64_t sealed_ = 0;
};

class FrameReader {
 public:
  enum class Next { kFrame, kNeedMore, kBroken };

  // All later frames must be sealed, and may have up to kMaxBody bytes.
  [[nodiscard]] bool unseal_with(const Digest& key) { return mac_.set_key(key); }

  // Where to put received bytes: at least `size` of them; then `commit` what came.
  std::span<std::byte> space_for(size_t size);
  void commit(size_t size) { end_ += size; }

  // kBroken is final: `why` says what was wrong with the bytes.
  Next next(ControlFrame* frame_out);
  const std::string& why() const { return why_; }
  size_t buffered() const { return end_ - begin_; }  // bytes not yet returned

 private:
  Next broken(std::string why);

  std::vector<std::byte> buffer_;
  size_t begin_ = 0;  // bytes begin_..end_ of buffer_ were received and not yet returned
  size_t end_ = 0;
  Hmac mac_;
  uint64_t unsealed_ = 0;
  std::string why_;
};

}  // namespace asyncmesh::mesh
