#include "transport/ucx/ucx_domain.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/ucx/ucx_link.h"
#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {
namespace {

constexpr Nanoseconds kDrainTime = 300'000'000;
constexpr uint32_t kDrainRounds = 50'000;     // bounds the wait under a clock that does not move
constexpr uint32_t kRoundsPerHousekeep = 16;  // a power of two

}  // namespace

Result<std::unique_ptr<UcxDomain>> UcxDomain::create(const UcxContextRequest& request,
                                                     UcxEngine engine, const Clock& clock) {
  std::unique_ptr<UcxDomain> domain(new UcxDomain(engine, clock));
  ASYNCMESH_RETURN_IF_ERROR(domain->open(request));
  return domain;
}

Status UcxDomain::open(const UcxContextRequest& request) {
  auto context = open_ucp_context(request);
  if (!context.ok()) return context.status();
  context_ = std::move(context.value());
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
  const ucs_status_t status = ucp_context_query(context_.get(), &attributes);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "asking UCX for its request size", status);
  request_bytes_ = attributes.request_size;
  event_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (event_fd_ < 0) return {Code::kSystem, fmt::format("epoll_create1: {}", std::strerror(errno))};
  identity_ = own_ucx_address(engine_);
  address_ = pack(identity_);
  return {};
}

UcxDomain::~UcxDomain() {
  const Nanoseconds deadline = deadline_after(clock_, kDrainTime);
  for (uint32_t round = 0; round < kDrainRounds && !closing_.empty(); ++round) {
    progress_closing();
    if (round % 64 == 63 && clock_.now() >= deadline) break;
  }
  if (!closing_.empty()) abandon();
  if (event_fd_ >= 0) close(event_fd_);
}

// Nobody progresses these any more, so nothing is called back. The list keeps them reachable:
// known, not lost.
void UcxDomain::abandon() {
  struct Abandoned {
    UniqueUcpContext context;
    std::vector<UcpMemory> staging;
    std::vector<std::unique_ptr<UcxConnection>> connections;
    Abandoned* next;
  };
  static std::atomic<Abandoned*> head{nullptr};
  auto* entry =
      new Abandoned{std::move(context_), std::move(staging_), std::move(closing_), nullptr};
  entry->next = head.load(std::memory_order_relaxed);
  while (!head.compare_exchange_weak(entry->next, entry, std::memory_order_release)) {
  }
}

Result<uint32_t> UcxDomain::register_staging(std::span<std::byte> memory) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = memory.data();
  params.length = memory.size();
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  ucp_mem_h handle = nullptr;
  const ucs_status_t status = ucp_mem_map(context_.get(), &params, &handle);
  if (status != UCS_OK) {
    return ucx_error(Code::kNoMemory, "registering staging memory (see ulimit -l)", status);
  }
  staging_.emplace_back(context_.get(), handle, memory);
  return static_cast<uint32_t>(staging_.size() - 1);
}

Result<std::unique_ptr<UcxConnection>> UcxDomain::open_connection(UcxLink* link) {
  auto connection = UcxConnection::create(context_.get(), link);
  if (connection.ok()) watch(connection.value()->event_fd(), EPOLL_CTL_ADD);
  return connection;
}

void UcxDomain::close_connection(std::unique_ptr<UcxConnection> connection) {
  connection->begin_close();
  closing_.push_back(std::move(connection));
}

// A descriptor that cannot be watched leaves its link to the owner's bounded sleep.
void UcxDomain::watch(int fd, int operation) {
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(event_fd_, operation, fd, &event);
}

uint32_t UcxDomain::housekeep() {
  if (!closing_.empty() && (++rounds_ & (kRoundsPerHousekeep - 1)) == 0) progress_closing();
  if (!failures_) return 0;
  deliver_failures();
  return 1;
}

bool UcxDomain::arm_closing() {
  if (failures_) return false;
  if (closing_.empty()) return true;
  progress_closing();
  return std::all_of(closing_.begin(), closing_.end(), [](auto& each) { return each->arm(); });
}

void UcxDomain::deliver_failures() {
  failures_ = false;
  const std::vector<UcxLink*> links = links_;  // a sink may open another link
  for (UcxLink* link : links) link->deliver_failure();
}

void UcxDomain::progress_closing() {
  std::erase_if(closing_, [this](auto& connection) {
    connection->progress_close();
    if (!connection->is_gone()) return false;
    watch(connection->event_fd(), EPOLL_CTL_DEL);
    return true;
  });
}

}  // namespace asyncmesh::transport
