// Bare UCP: ucp_put of the frame, then of an 8-byte commit word that the reader polls while it
// makes progress; a credit word, put the other way, after half a window of a
// stream.
#include <atomic>
#include <cstring>
#include <vector>

#include "lane/frame.h"
#include "perf/micro/lane_bench_ucp.h"

namespace asyncmesh::bench {
namespace {

constexpr size_t kLine = 64;

class PutPattern final : public Pattern {
 public:
  PutPattern(const ProcessPair& pair, const Medium& medium, const Shape& shape);
  ~PutPattern() override;
  void ping_pong(uint32_t rounds) override;
  void stream(uint32_t frames) override;
  std::string describe() const override { return "bare ucp_put + ucp_put"; }

 private:
  // Window: as many commit words and a credit word, one line each, then as many slots.
  size_t word_at(uint64_t frame) const { return (frame & (window_size_ - 1)) * kLine; }
  size_t slot_at(uint64_t frame) const {
    return (window_size_ + 1) * kLine + (frame & (window_size_ - 1)) * stride_;
  }
  size_t credit_at() const { return window_size_ * kLine; }
  size_t window_bytes() const { return (window_size_ + 1) * kLine + window_size_ * stride_; }
  uint64_t load(size_t offset) const {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(window_ + offset))
        .load(std::memory_order_acquire);
  }
  void put(const void* data, size_t bytes, size_t offset);
  void post();
  void take();

  bool leader_;
  size_t bytes_;
  uint32_t window_size_;
  size_t stride_;
  UcpPair ucp_;
  std::vector<std::byte> out_;
  ucp_mem_h memory_ = nullptr;
  std::byte* window_ = nullptr;
  ucp_rkey_h rkey_ = nullptr;
  uint64_t remote_ = 0;
  uint64_t posted_ = 0;
  uint64_t taken_ = 0;
};

PutPattern::PutPattern(const ProcessPair& pair, const Medium& medium, const Shape& shape)
    : leader_(pair.leader()),
      bytes_(shape.bytes + kFrameHeaderBytes),
      window_size_(shape.window),
      stride_((bytes_ + kLine - 1) / kLine * kLine),
      ucp_(pair, medium, UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP),
      out_(window_size_ * bytes_) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = window_bytes();
  params.flags = UCP_MEM_MAP_ALLOCATE;
  check(ucp_mem_map(ucp_.context(), &params, &memory_), "ucp_mem_map");
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  check(ucp_mem_query(memory_, &attributes), "ucp_mem_query");
  window_ = static_cast<std::byte*>(attributes.address);
  std::memset(window_, 0, window_bytes());

  void* packed = nullptr;
  size_t packed_bytes = 0;
  check(ucp_rkey_pack(ucp_.context(), memory_, &packed, &packed_bytes), "ucp_rkey_pack");
  const auto address = reinterpret_cast<uint64_t>(window_);
  Bytes mine(sizeof(address) + packed_bytes);
  std::memcpy(mine.data(), &address, sizeof(address));
  std::memcpy(mine.data() + sizeof(address), packed, packed_bytes);
  ucp_rkey_buffer_release(packed);
  const Bytes theirs = pair.exchange(mine);
  std::memcpy(&remote_, theirs.data(), sizeof(remote_));
  check(ucp_ep_rkey_unpack(ucp_.endpoint(), theirs.data() + sizeof(remote_), &rkey_),
        "ucp_ep_rkey_unpack");
  pair.exchange({});
}

PutPattern::~PutPattern() {
  ucp_rkey_destroy(rkey_);
  ucp_mem_unmap(ucp_.context(), memory_);
}

// Over shared memory a put is done when the call returns.
void PutPattern::put(const void* data, size_t bytes, size_t offset) {
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request =
      ucp_put_nbx(ucp_.endpoint(), data, bytes, remote_ + offset, rkey_, &param);
  if (request == nullptr) return;
  if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "ucp_put_nbx");
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_.progress();
  ucp_request_free(request);
}

void PutPattern::post() {
  // Each frame is packed somewhere else, as the other patterns have to.
  std::byte* frame = out_.data() + (posted_ & (window_size_ - 1)) * bytes_;
  mark_payload(frame + kFrameHeaderBytes, posted_ + 1);
  put(frame, bytes_, slot_at(posted_));
  const uint64_t word = ++posted_;
  put(&word, sizeof(word), word_at(posted_ - 1));
}

void PutPattern::take() {
  while (load(word_at(taken_)) != taken_ + 1) ucp_.progress();
  check_payload(window_ + slot_at(taken_) + kFrameHeaderBytes, taken_ + 1);
  ++taken_;
}

void PutPattern::ping_pong(uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    if (leader_) post();
    take();
    if (!leader_) post();
  }
}

void PutPattern::stream(uint32_t frames) {
  const uint64_t start = posted_;
  for (uint32_t frame = 0; frame < frames; ++frame) {
    if (leader_) {
      while (frame >= window_size_ && load(credit_at()) < start + frame - window_size_ + 1)
        ucp_.progress();
      post();
    } else {
      take();
      const bool due = taken_ % (window_size_ / 2) == 0 || frame + 1 == frames;
      if (due) put(&taken_, sizeof(taken_), credit_at());
    }
  }
  while (leader_ && load(credit_at()) != start + frames) ucp_.progress();
}

}  // namespace

std::unique_ptr<Pattern> make_put_pattern(const ProcessPair& pair, const Medium& medium,
                                          const Shape& shape) {
  return std::make_unique<PutPattern>(pair, medium, shape);
}

}  // namespace asyncmesh::bench
