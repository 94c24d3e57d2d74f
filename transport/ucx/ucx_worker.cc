#include "transport/ucx/ucx_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "transport/ucx/ucx_link.h"
#include "transport/ucx/ucx_log.h"

namespace asyncmesh::transport {
namespace {

constexpr Nanoseconds kDrainTime = 500'000'000;
constexpr uint32_t kDrainRounds = 100'000;  // bounds the drain under a clock that does not move
constexpr uint32_t kDrainMinimum =
    64;  // rounds in which UCX finishes what a forced close left to do
constexpr uint32_t kAddressMagic = 0x41584D41;  // "AMXA"

struct AddressPrefix {
  uint32_t magic = kAddressMagic;
  uint16_t engine = 0;
  uint8_t ucx_major = 0;
  uint8_t ucx_minor = 0;
  uint64_t node = 0;
};
static_assert(sizeof(AddressPrefix) == 16);

AddressPrefix own_prefix(UcxEngine engine, uint64_t node) {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return {kAddressMagic, static_cast<uint16_t>(engine), static_cast<uint8_t>(major),
          static_cast<uint8_t>(minor), node};
}

uint64_t random_node() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

Result<UcxAddress> parse_ucx_address(std::span<const std::byte> bytes, UcxEngine engine) {
  AddressPrefix prefix;
  if (bytes.size() <= sizeof(prefix))
    return Status(Code::kInvalidArgument, "UCX address is too short");
  std::memcpy(&prefix, bytes.data(), sizeof(prefix));
  const AddressPrefix own = own_prefix(engine, 0);
  if (prefix.magic != kAddressMagic)
    return Status(Code::kInvalidArgument, "not a UCX address of this library");
  if (prefix.engine != own.engine) return Status(Code::kMismatch, "UCX address of another engine");
  if (prefix.ucx_major != own.ucx_major || prefix.ucx_minor != own.ucx_minor) {
    return Status(Code::kMismatch,
                  fmt::format("the peer runs UCX {}.{}, this process {}.{}", prefix.ucx_major,
                              prefix.ucx_minor, own.ucx_major, own.ucx_minor));
  }
  return UcxAddress{prefix.node,
                    reinterpret_cast<const ucp_address_t*>(bytes.data() + sizeof(prefix))};
}

Result<std::unique_ptr<UcxWorker>> UcxWorker::create(const UcxContextRequest& request,
                                                     UcxEngine engine, const Clock& clock) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker(engine, clock));
  ASYNCMESH_RETURN_IF_ERROR(worker->open(request));
  return worker;
}

Status UcxWorker::open(const UcxContextRequest& request) {
  auto context = open_ucp_context(request);
  if (!context.ok()) return context.status();
  context_ = std::move(context.value());

  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  ucs_status_t status = ucp_worker_create(context_.get(), &params, &worker);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "creating a UCX worker", status);
  worker_.reset(worker);

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kControlAmId;
  handler.cb = &UcxWorker::on_message;
  handler.arg = this;
  status = ucp_worker_set_am_recv_handler(worker, &handler);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "setting UCX's message handler", status);
  status = ucp_worker_get_efd(worker, &event_fd_);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "getting UCX's event descriptor", status);

  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
  status = ucp_context_query(context_.get(), &attributes);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "asking UCX for its request size", status);
  request_bytes_ = attributes.request_size;
  return pack_address();
}

Status UcxWorker::pack_address() {
  node_ = random_node();
  ucp_address_t* packed = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = ucp_worker_get_address(worker_.get(), &packed, &bytes);
  if (status != UCS_OK) return ucx_error(Code::kSystem, "getting UCX's address", status);
  const AddressPrefix prefix = own_prefix(engine_, node_);
  address_.resize(sizeof(prefix) + bytes);
  std::memcpy(address_.data(), &prefix, sizeof(prefix));
  std::memcpy(address_.data() + sizeof(prefix), packed, bytes);
  ucp_worker_release_address(worker_.get(), packed);
  return {};
}

UcxWorker::~UcxWorker() {
  if (worker_ == nullptr) return;
  drain();
  for (const auto& object : lingering_) object->drop_handles();
  worker_.reset();
  lingering_.clear();
}

Result<uint32_t> UcxWorker::register_staging(std::span<std::byte> memory) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = memory.data();
  params.length = memory.size();
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  ucp_mem_h handle = nullptr;
  const ucs_status_t status = ucp_mem_map(context_.get(), &params, &handle);
  if (status != UCS_OK)
    return ucx_error(Code::kNoMemory, "registering staging memory (see ulimit -l)", status);
  staging_.emplace_back(context_.get(), handle, memory);
  return static_cast<uint32_t>(staging_.size() - 1);
}

uint32_t UcxWorker::progress() {
  uint32_t events = ucp_worker_progress(worker_.get());
  if (failures_) [[unlikely]] {
    deliver_failures();
    ++events;
  }
  if (!lingering_.empty() || !closing_.empty()) [[unlikely]]
    sweep();
  return events;
}

bool UcxWorker::arm() {
  if (failures_ || deferred_) return false;
  // An error leaves the owner to its bounded poll: better than a spin on a worker that cannot
  // sleep.
  return ucp_worker_arm(worker_.get()) != UCS_ERR_BUSY;
}

void UcxWorker::add_link(UcxLink* link) { links_.push_back(link); }

void UcxWorker::remove_link(UcxLink* link) { std::erase(links_, link); }

void UcxWorker::deliver_failures() {
  failures_ = false;
  const std::vector<UcxLink*> links = links_;  // a sink may open another link
  for (UcxLink* link : links) link->deliver_failure();
}

void UcxWorker::retire(std::unique_ptr<Lingering> object) {
  if (object != nullptr && object->outstanding() != 0) lingering_.push_back(std::move(object));
}

void UcxWorker::close_endpoint(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void UcxWorker::sweep() {
  std::erase_if(lingering_, [](const auto& object) { return object->outstanding() == 0; });
  std::erase_if(closing_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
}

void UcxWorker::drain() {
  const Nanoseconds deadline = deadline_after(clock_, kDrainTime);
  for (uint32_t round = 0; round < kDrainRounds; ++round) {
    progress();
    const bool done = lingering_.empty() && closing_.empty();
    if (done && round >= kDrainMinimum) return;
    if (round % 64 == 63 && clock_.now() >= deadline) return;
  }
}

ucs_status_t UcxWorker::on_message(void* self, const void* header, size_t header_bytes, void*,
                                   size_t, const ucp_am_recv_param_t*) {
  auto& worker = *static_cast<UcxWorker*>(self);
  ControlMessage message;
  if (header_bytes == sizeof(message)) {
    std::memcpy(&message, header, sizeof(message));
    for (UcxLink* link : worker.links_) {
      if (message.magic != kControlMagic || !link->matches(message.node, message.epoch)) continue;
      link->on_control(message);
      return UCS_OK;
    }
  }
  ++worker.stray_messages_;
  return UCS_OK;
}

}  // namespace asyncmesh::transport
