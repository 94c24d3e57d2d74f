// The handshake that opens every control connection (sans-I/O, one object per connection).
//
//      dialer                                          acceptor
//      HELLO   magic, wire version, purpose, nonce, identity  -->
//              <--  REPLY   magic, wire version, purpose, nonce, identity, proof of the acceptor
//      PROOF   proof of the dialer  -->
//      (from here on all frames are sealed, see control_frame.h)
//
// proof = HMAC-SHA256(key of the job, role | HELLO | REPLY without its proof): it binds both
// nonces, both identities (run id, rank, incarnation, geometry, versions, digest of the transport
// address) and the versions, and differs by role, so that it cannot be reflected. The acceptor
// proves first: who does not know the secret learns nothing but an identity without addresses. Keys
// of the session, one per direction, are derived from the same transcript. Whoever finds a fault
// answers REFUSE with a reason; before authentication such a reason is only a hint.
//
// The secret is not stretched: whoever can make the acceptor answer may try guesses at leisure, so
// it has to be long and random.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/crypto.h"
#include "mesh/identity.h"

namespace asyncmesh::mesh {

inline constexpr uint16_t kWireVersion = 1;

enum class HandshakeMessage : uint16_t { kHello = 1, kReply = 2, kProof = 3, kRefuse = 4 };
enum class Side : uint8_t { kDialer = 1, kAcceptor = 2 };
enum class Purpose : uint8_t { kRendezvous = 1, kPeer = 2 };

struct HandshakeReply {
  HandshakeMessage type;
  std::vector<std::byte> body;
};
using HandshakeReplies = std::vector<HandshakeReply>;

// {i32 code, text}, used by REFUSE here and by the rendezvous' refusals later.
std::vector<std::byte> encode_refusal(const Status& why);
// kRefused or what the other side stated; the text is printable. Never ok.
Status decode_refusal(ByteSpan body);

class Handshake {
 public:
  Handshake(Side side, Purpose purpose, const Digest& key, Identity self);

  // Dialer: the first message. Acceptor: nothing to send. kInternal: no random bytes.
  Status start(HandshakeReplies& replies);
  // One message came. Not ok: the connection is over, after `replies` (a REFUSE, perhaps) was sent.
  // kRefused: the secrets differ or this is no peer of ours; kMismatch: other wire version.
  Status on_message(uint16_t type, ByteSpan body, HandshakeReplies& replies);

  bool done() const { return state_ == State::kDone; }
  const Identity& self() const { return self_; }
  const Identity& peer() const { return peer_; }  // trustworthy once done
  const Digest& send_key() const { return send_key_; }
  const Digest& receive_key() const { return receive_key_; }

 private:
  enum class State { kStart, kAwaitHello, kAwaitReply, kAwaitProof, kDone, kFailed };

  Status on_hello(ByteSpan body, HandshakeReplies& replies);
  Status on_reply(ByteSpan body, HandshakeReplies& replies);
  Status on_proof(ByteSpan body, HandshakeReplies& replies);
  Status read_opening(ByteReader& in, HandshakeReplies& replies);
  std::vector<std::byte> opening() const;  // magic .. identity of this side
  bool proof_of(Side side, Digest* proof_out);
  bool derive_keys();
  Status fail(const Status& why, HandshakeReplies& replies);

  const Side side_;
  const Purpose purpose_;
  const Digest key_;
  const Identity self_;
  State state_ = State::kStart;
  Digest nonce_{};
  Identity peer_;
  std::vector<std::byte> hello_;  // the two halves of the transcript
  std::vector<std::byte> reply_;
  Digest send_key_{};
  Digest receive_key_{};
};

}  // namespace asyncmesh::mesh
