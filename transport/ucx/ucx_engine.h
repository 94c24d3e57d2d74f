// What both engines' transports share: everything but how frames move.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "transport/transport.h"
#include "transport/ucx/ucx_domain.h"
#include "transport/ucx/ucx_transport.h"

namespace asyncmesh::transport {

class UcxTransport : public Transport {
 public:
  UcxTransport(std::unique_ptr<UcxDomain> domain, const UcxConfig& config)
      : config_(config), domain_(std::move(domain)) {}

  std::span<const std::byte> address() const override { return domain_->address(); }
  Result<uint32_t> register_staging(std::span<std::byte> memory) override {
    return domain_->register_staging(memory);
  }
  Nanoseconds next_deadline() const override { return kNever; }
  int event_fd() const override { return domain_->event_fd(); }

 protected:
  UcxConfig config_;
  std::unique_ptr<UcxDomain> domain_;
};

}  // namespace asyncmesh::transport
