// What the transports that stand around another (faulty, paced) hand on to it unchanged.
//
// `Interface` is the wrapper's public class, derived from Transport. Owns the inner transport and
// destroys it last. Threads as in transport/transport.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "transport/transport.h"

namespace asyncmesh::transport {

template <typename Interface>
class ForwardingTransport : public Interface {
 public:
  std::string_view name() const final { return name_; }
  Capabilities capabilities() const final { return inner_->capabilities(); }
  std::span<const std::byte> address() const final { return inner_->address(); }
  Result<uint32_t> register_staging(std::span<std::byte> memory) final {
    return inner_->register_staging(memory);
  }
  int event_fd() const final { return inner_->event_fd(); }

 protected:
  // Named "`kind`:name of the inner one".
  ForwardingTransport(std::string_view kind, std::unique_ptr<Transport> inner)
      : inner_(std::move(inner)), name_(std::string(kind) + ":" + std::string(inner_->name())) {}

  const std::unique_ptr<Transport> inner_;

 private:
  const std::string name_;
};

}  // namespace asyncmesh::transport
