#include "mesh/control_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace asyncmesh::mesh {

namespace {

constexpr size_t kSmallBuffer = 64 * 1024;

ByteSpan bytes_of(const uint64_t& value) { return std::as_bytes(std::span(&value, 1)); }

}  // namespace

bool FrameWriter::append(const ControlFrame& frame, std::vector<std::byte>& out) {
  const size_t start = out.size();
  const auto size = static_cast<uint32_t>(frame.body.size());
  out.resize(start + kFrameHeaderBytes);
  std::byte* const header = out.data() + start;
  std::memcpy(header, &size, sizeof size);
  std::memcpy(header + 4, &frame.type, sizeof frame.type);
  header[6] = static_cast<std::byte>(frame.space);
  header[7] = std::byte{0};
  out.insert(out.end(), frame.body.begin(), frame.body.end());
  if (!mac_.has_key()) return true;

  Digest digest;
  if (!mac_.compute({bytes_of(sealed_), ByteSpan(out).subspan(start)}, &digest)) {
    out.resize(start);
    return false;
  }
  ++sealed_;
  out.insert(out.end(), digest.begin(), digest.begin() + kFrameMacBytes);
  return true;
}

std::span<std::byte> FrameReader::space_for(size_t size) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    // One large message must not keep its buffer for the life of the connection.
    if (buffer_.size() > kSmallBuffer && size <= kSmallBuffer) {
      buffer_ = std::vector<std::byte>(kSmallBuffer);
    }
  }
  if (buffer_.size() - end_ < size && begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < size) buffer_.resize(end_ + size);
  return std::span(buffer_).subspan(end_);
}

FrameReader::Next FrameReader::broken(std::string why) {
  why_ = std::move(why);
  return Next::kBroken;
}

FrameReader::Next FrameReader::next(ControlFrame* frame_out) {
  if (!why_.empty()) return Next::kBroken;
  if (buffered() < kFrameHeaderBytes) return Next::kNeedMore;
  const std::byte* const header = buffer_.data() + begin_;
  uint32_t size = 0;
  ControlFrame frame;
  std::memcpy(&size, header, sizeof size);
  std::memcpy(&frame.type, header + 4, sizeof frame.type);
  const auto space = static_cast<uint8_t>(header[6]);
  const bool sealed = mac_.has_key();
  if (header[7] != std::byte{0} || space > static_cast<uint8_t>(Space::kApplication)) {
    return broken("malformed frame header");
  }
  frame.space = static_cast<Space>(space);
  if (!sealed && frame.space != Space::kHandshake) return broken("frame before authentication");
  if (size > (sealed ? kMaxBody : kMaxHandshakeBody)) {
    return broken(fmt::format("frame of {} bytes, over the limit", size));
  }
  const size_t whole = kFrameHeaderBytes + size + (sealed ? kFrameMacBytes : 0);
  if (buffered() < whole) return Next::kNeedMore;

  if (sealed) {
    Digest digest;
    const ByteSpan covered(header, kFrameHeaderBytes + size);
    const ByteSpan mac(header + kFrameHeaderBytes + size, kFrameMacBytes);
    if (!mac_.compute({bytes_of(unsealed_), covered}, &digest)) return broken("HMAC failed");
    if (!equal_in_constant_time(mac, ByteSpan(digest).first(kFrameMacBytes))) {
      return broken("frame with a wrong authentication code");
    }
    ++unsealed_;
  }
  frame.body = ByteSpan(header + kFrameHeaderBytes, size);
  begin_ += whole;
  *frame_out = frame;
  return Next::kFrame;
}

}  // namespace asyncmesh::mesh
