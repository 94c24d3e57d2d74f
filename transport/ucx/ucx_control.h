// The small messages that travel beside frames, as UCP active messages: the hello that opens a
// connection, credits and, for rma, sleep notices and doorbells.
//
// One fixed record, little endian, carried as the active message's header; only a hello has a
// payload. The receiver checks the sender's node and the link's epoch; what does not fit is
// dropped. A message needs its bytes until UCP has sent it, so each sender owns a ControlSlot that
// takes one message at a time.
#pragma once

#include <ucp/api/ucp.h>

#include <bit>
#include <cstdint>
#include <span>

#include "transport/transport.h"

namespace asyncmesh::transport {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kControlMagic = 0x43584D41;  // "AMXC"
inline constexpr unsigned kControlAmId = 1;

enum class ControlKind : uint32_t {
  kHello = 1,     // payload: UCX's address of the sender's worker
  kCredit = 2,    // counts = received, taken, released of `lane`
  kSleep = 3,     // counts[0] = commits of the receiver that the sender of this has seen
  kDoorbell = 4,  // counts[0] = commits made by the sender of this
};

struct ControlMessage {
  uint32_t magic = kControlMagic;
  ControlKind kind = ControlKind::kCredit;
  uint64_t node = 0;  // of the sender
  Epoch epoch = 0;
  LaneId lane = 0;
  uint32_t reserved = 0;
  uint64_t counts[3] = {};
};
static_assert(sizeof(ControlMessage) == 48);

// Something that UCX refers to while operations are outstanding, maybe longer than its owner needs
// it. Then the connection keeps it too.
class Lingering {
 public:
  virtual ~Lingering() = default;
  // The worker is about to be destroyed: give up handles that need it.
  virtual void drop_handles() {}
  uint32_t outstanding() const { return outstanding_; }

 protected:
  uint32_t outstanding_ = 0;  // UCX operations that name this object
};

class ControlSlot final : public Lingering {
 public:
  // kOk: sent, or on its way. kAgain: the previous message is still on its way. kLinkError: UCX
  // refused, `status_out` says why. The payload must stay unchanged as long as this object.
  Code send(ucp_ep_h endpoint, const ControlMessage& message, std::span<const std::byte> payload,
            ucs_status_t* status_out);

 private:
  static void on_sent(void* request, ucs_status_t status, void* self);
  ControlMessage message_;
};

}  // namespace asyncmesh::transport
