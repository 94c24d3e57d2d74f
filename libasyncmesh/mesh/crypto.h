// SHA-256, HMAC-SHA256 and random bytes (OpenSSL), as the control protocol uses them.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

namespace asyncmesh::mesh {

using ByteSpan = std::span<const std::byte>;
using Digest = std::array<std::byte, 32>;

inline ByteSpan bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// False: the operating system gave no random bytes, or OpenSSL had no memory.
[[nodiscard]] bool fill_random(std::span<std::byte> out);
[[nodiscard]] bool sha256(std::initializer_list<ByteSpan> parts, Digest* digest_out);
// Takes the same time wherever the bytes differ. Different sizes are different.
[[nodiscard]] bool equal_in_constant_time(ByteSpan a, ByteSpan b);

// HMAC-SHA256 with one key, for many messages. One thread at a time.
class Hmac {
 public:
  Hmac();
  ~Hmac();
  Hmac(Hmac&&) noexcept;
  Hmac& operator=(Hmac&&) noexcept;

  [[nodiscard]] bool set_key(const Digest& key);
  bool has_key() const { return context_ != nullptr; }
  // Of the parts, one after the other. False (and no digest): no key, or OpenSSL had no memory.
  [[nodiscard]] bool compute(std::initializer_list<ByteSpan> parts, Digest* digest_out);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The key of a job from its secret. An empty secret gives a fixed key: it keeps apart what was
// misconfigured, and authenticates nobody.
[[nodiscard]] bool key_from_secret(std::string_view secret, Digest* key_out);

}  // namespace asyncmesh::mesh
