#include "mesh/handshake.h"

#include <fmt/format.h>

#include <algorithm>

#include "mesh/text.h"

namespace asyncmesh::mesh {

namespace {

constexpr uint32_t kMagic = 0x48534D41;  // "AMSH"

Status failed_inside() { return {Code::kInternal, "OpenSSL failed"}; }

}  // namespace

std::vector<std::byte> encode_refusal(const Status& why) {
  std::vector<std::byte> body;
  ByteWriter out(body);
  out.u32(static_cast<uint32_t>(why.code()));
  out.text(std::string_view(why.text()).substr(0, 1024));
  return body;
}

Status decode_refusal(ByteSpan body) {
  ByteReader in(body);
  const auto code = static_cast<Code>(in.u32());
  const std::string text = printable(in.text(), 1024);
  if (!in.done()) return {Code::kRefused, "refused without a reason"};
  const bool known = code != Code::kOk && code_name(code) != code_name(static_cast<Code>(1));
  return {known ? code : Code::kRefused, text};
}

Handshake::Handshake(Side side, Purpose purpose, const Digest& key, Identity self)
    : side_(side), purpose_(purpose), key_(key), self_(std::move(self)) {}

Status Handshake::start(HandshakeReplies& replies) {
  if (!fill_random(nonce_)) {
    state_ = State::kFailed;
    return {Code::kInternal, "no random bytes"};
  }
  if (side_ == Side::kAcceptor) {
    state_ = State::kAwaitHello;
    return {};
  }
  hello_ = opening();
  replies.push_back({HandshakeMessage::kHello, hello_});
  state_ = State::kAwaitReply;
  return {};
}

Status Handshake::on_message(uint16_t type, ByteSpan body, HandshakeReplies& replies) {
  const auto message = static_cast<HandshakeMessage>(type);
  if (message == HandshakeMessage::kRefuse && state_ != State::kDone) {
    state_ = State::kFailed;
    return decode_refusal(body);
  }
  if (message == HandshakeMessage::kHello && state_ == State::kAwaitHello)
    return on_hello(body, replies);
  if (message == HandshakeMessage::kReply && state_ == State::kAwaitReply)
    return on_reply(body, replies);
  if (message == HandshakeMessage::kProof && state_ == State::kAwaitProof)
    return on_proof(body, replies);
  state_ = State::kFailed;  // no answer: whoever sends this does not speak the protocol
  return {Code::kRefused, "unexpected handshake message"};
}

Status Handshake::fail(const Status& why, HandshakeReplies& replies) {
  state_ = State::kFailed;
  replies.push_back({HandshakeMessage::kRefuse, encode_refusal(why)});
  return why;
}

std::vector<std::byte> Handshake::opening() const {
  std::vector<std::byte> body;
  ByteWriter out(body);
  out.u32(kMagic);
  out.u16(kWireVersion);
  out.u8(static_cast<uint8_t>(purpose_));
  out.raw(nonce_);
  encode(self_, out);
  return body;
}

// Magic and version keep their place in all versions to come.
Status Handshake::read_opening(ByteReader& in, HandshakeReplies& replies) {
  if (in.u32() != kMagic) {
    state_ = State::kFailed;
    return {Code::kRefused, "not an AsyncMesh process"};
  }
  if (const uint16_t version = in.u16(); version != kWireVersion) {
    return fail(Status(Code::kMismatch, fmt::format("control protocol version {} meets version {}",
                                                    version, kWireVersion)),
                replies);
  }
  if (const uint8_t purpose = in.u8(); purpose != static_cast<uint8_t>(purpose_)) {
    return fail(Status(Code::kRefused, purpose_ == Purpose::kPeer
                                           ? "this port belongs to a rank, not to the rendezvous"
                                           : "this port belongs to the rendezvous, not to a rank"),
                replies);
  }
  in.raw(nonce_.size());
  if (!decode(in, &peer_)) return fail(Status(Code::kRefused, "malformed handshake"), replies);
  return {};
}

Status Handshake::on_hello(ByteSpan body, HandshakeReplies& replies) {
  ByteReader in(body);
  ASYNCMESH_RETURN_IF_ERROR(read_opening(in, replies));
  if (!in.done()) return fail(Status(Code::kRefused, "malformed handshake"), replies);
  hello_.assign(body.begin(), body.end());
  reply_ = opening();
  Digest proof;
  if (!proof_of(Side::kAcceptor, &proof)) return fail(failed_inside(), replies);
  std::vector<std::byte> answer = reply_;
  answer.insert(answer.end(), proof.begin(), proof.end());
  replies.push_back({HandshakeMessage::kReply, std::move(answer)});
  state_ = State::kAwaitProof;
  return {};
}

Status Handshake::on_reply(ByteSpan body, HandshakeReplies& replies) {
  ByteReader in(body);
  ASYNCMESH_RETURN_IF_ERROR(read_opening(in, replies));
  const size_t opening_bytes = body.size() - in.left();
  const ByteSpan proof = in.raw(Digest().size());
  if (!in.done()) return fail(Status(Code::kRefused, "malformed handshake"), replies);
  reply_.assign(body.begin(), body.begin() + static_cast<ptrdiff_t>(opening_bytes));
  Digest expected;
  Digest own;
  if (!proof_of(Side::kAcceptor, &expected) || !proof_of(Side::kDialer, &own) || !derive_keys()) {
    return fail(failed_inside(), replies);
  }
  if (!equal_in_constant_time(proof, expected)) {
    return fail(
        Status(Code::kRefused, fmt::format("authentication failed: the secret of {} and that of {} "
                                           "differ",
                                           describe(self_), describe(peer_))),
        replies);
  }
  replies.push_back({HandshakeMessage::kProof, {own.begin(), own.end()}});
  state_ = State::kDone;
  return {};
}

Status Handshake::on_proof(ByteSpan body, HandshakeReplies& replies) {
  Digest expected;
  if (!proof_of(Side::kDialer, &expected) || !derive_keys()) return fail(failed_inside(), replies);
  if (!equal_in_constant_time(body, expected)) {
    return fail(Status(Code::kRefused, "authentication failed: wrong proof"), replies);
  }
  state_ = State::kDone;
  return {};
}

bool Handshake::proof_of(Side side, Digest* proof_out) {
  Hmac mac;
  const auto role = static_cast<std::byte>(side);
  return mac.set_key(key_) &&
         mac.compute({bytes_of("asyncmesh proof"), ByteSpan(&role, 1), hello_, reply_}, proof_out);
}

bool Handshake::derive_keys() {
  const auto key_of = [this](Side writer, Digest* key) {
    Hmac mac;
    const auto role = static_cast<std::byte>(writer);
    return mac.set_key(key_) &&
           mac.compute({bytes_of("asyncmesh session"), ByteSpan(&role, 1), hello_, reply_}, key);
  };
  const Side other = side_ == Side::kDialer ? Side::kAcceptor : Side::kDialer;
  return key_of(side_, &send_key_) && key_of(other, &receive_key_);
}

}  // namespace asyncmesh::mesh
