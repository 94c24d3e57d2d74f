// Bare UCP: one tagged message per frame into receives posted beforehand, a credit after every
// half a window of frames.
#include <vector>

#include "lane/frame.h"
#include "perf/micro/lane_bench_ucp.h"

namespace asyncmesh::bench {
namespace {

constexpr ucp_tag_t kFrameTag = 1;
constexpr ucp_tag_t kCreditTag = 2;

class TagPattern final : public Pattern {
 public:
  TagPattern(const ProcessPair& pair, const Medium& medium, const Shape& shape);
  ~TagPattern() override;
  void ping_pong(uint32_t rounds) override;
  void stream(uint32_t frames) override;
  std::string describe() const override { return "bare ucp_tag_send/recv"; }

 private:
  struct Receive {
    void* request = nullptr;
    bool done = false;
  };
  void post_receive(Receive& receive, void* data, size_t bytes, ucp_tag_t tag);
  void await(const Receive& receive) const {
    while (!receive.done) ucp_.progress();
  }
  void send(const void* data, size_t bytes, ucp_tag_t tag);
  void await_frame();
  void release_frame();
  void post_frame();
  void take_credit();
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t*,
                          void* receive);
  static void on_sent(void* request, ucs_status_t status, void* sending);

  bool leader_;
  size_t bytes_;
  uint32_t window_size_;
  UcpPair ucp_;
  std::vector<std::byte> out_;
  std::vector<std::vector<std::byte>> slots_;
  std::vector<Receive> receives_;  // frames, one per place in the window
  uint64_t posted_ = 0;
  uint64_t taken_ = 0;
  Receive credit_;
  uint64_t credit_word_ = 0;
  uint32_t sending_ = 0;
};

TagPattern::TagPattern(const ProcessPair& pair, const Medium& medium, const Shape& shape)
    : leader_(pair.leader()),
      bytes_(shape.bytes + kFrameHeaderBytes),
      window_size_(shape.window),
      ucp_(pair, medium, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP),
      out_(window_size_ * bytes_),
      slots_(window_size_, std::vector<std::byte>(bytes_)),
      receives_(window_size_) {
  for (uint32_t slot = 0; slot < window_size_; ++slot) {
    post_receive(receives_[slot], slots_[slot].data(), bytes_, kFrameTag);
  }
  post_receive(credit_, &credit_word_, sizeof(credit_word_), kCreditTag);
  pair.exchange({});
}

TagPattern::~TagPattern() {
  for (const Receive& receive : receives_) {
    if (!receive.done) ucp_request_cancel(ucp_.worker(), receive.request);
  }
  if (!credit_.done) ucp_request_cancel(ucp_.worker(), credit_.request);
}

void TagPattern::post_receive(Receive& receive, void* data, size_t bytes, ucp_tag_t tag) {
  receive.done = false;
  ucp_request_param_t param;
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.recv = &TagPattern::on_received;
  param.user_data = &receive;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  receive.request = ucp_tag_recv_nbx(ucp_.worker(), data, bytes, tag, ~ucp_tag_t{0}, &param);
  if (UCS_PTR_IS_ERR(receive.request)) check(UCS_PTR_STATUS(receive.request), "ucp_tag_recv_nbx");
  if (receive.request == nullptr) receive.done = true;
}

void TagPattern::on_received(void* request, ucs_status_t, const ucp_tag_recv_info_t*,
                             void* receive) {
  static_cast<Receive*>(receive)->done = true;
  ucp_request_free(request);
}

void TagPattern::send(const void* data, size_t bytes, ucp_tag_t tag) {
  while (sending_ >= window_size_) ucp_.progress();
  ucp_request_param_t param;
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = &TagPattern::on_sent;
  param.user_data = &sending_;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request = ucp_tag_send_nbx(ucp_.endpoint(), data, bytes, tag, &param);
  if (UCS_PTR_IS_PTR(request)) {
    ++sending_;
  } else {
    check(UCS_PTR_STATUS(request), "ucp_tag_send_nbx");
  }
}

void TagPattern::on_sent(void* request, ucs_status_t, void* sending) {
  --*static_cast<uint32_t*>(sending);
  ucp_request_free(request);
}

void TagPattern::post_frame() {
  // A frame in flight must not change: each has a place of its own while it may be.
  std::byte* frame = out_.data() + (posted_++ & (window_size_ - 1)) * bytes_;
  mark_payload(frame + kFrameHeaderBytes, posted_);
  send(frame, bytes_, kFrameTag);
}

void TagPattern::await_frame() {
  const size_t slot = taken_ & (window_size_ - 1);
  await(receives_[slot]);
  check_payload(slots_[slot].data() + kFrameHeaderBytes, ++taken_);
}

void TagPattern::release_frame() {
  const size_t slot = (taken_ - 1) & (window_size_ - 1);
  post_receive(receives_[slot], slots_[slot].data(), bytes_, kFrameTag);
  if (taken_ % (window_size_ / 2) == 0) send(&taken_, sizeof(taken_), kCreditTag);
}

void TagPattern::take_credit() {
  await(credit_);
  post_receive(credit_, &credit_word_, sizeof(credit_word_), kCreditTag);
}

// Both directions are in step, so a credit is there for every half window that was
// sent.
void TagPattern::ping_pong(uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    if (leader_) post_frame();
    await_frame();
    if (!leader_) post_frame();
    release_frame();
    if (taken_ % (window_size_ / 2) == 0 && taken_ >= window_size_) take_credit();
  }
}

void TagPattern::stream(uint32_t frames) {
  uint64_t credited = 0;
  for (uint32_t frame = 0; frame < frames; ++frame) {
    if (!leader_) {
      await_frame();
      release_frame();
      continue;
    }
    while (frame - credited >= window_size_) {
      take_credit();
      credited += window_size_ / 2;
    }
    post_frame();
  }
  for (; leader_ && credited < frames; credited += window_size_ / 2) take_credit();
}

}  // namespace

std::unique_ptr<Pattern> make_tag_pattern(const ProcessPair& pair, const Medium& medium,
                                          const Shape& shape) {
  return std::make_unique<TagPattern>(pair, medium, shape);
}

}  // namespace asyncmesh::bench
