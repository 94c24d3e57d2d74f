#include "mesh/handshake.h"

#include <gtest/gtest.h>

#include <random>

namespace asyncmesh::mesh {
namespace {

Identity identity(Rank rank) {
  Identity identity;
  identity.run_id = "run";
  identity.rank = rank;
  identity.replicas = 4;
  identity.peer_timeout = 1'000'000'000;
  identity.library_version = "0.1.0";
  identity.transport_version = "ucx 1.13";
  identity.announce_host = "127.0.0.1";
  identity.port = 1234;
  fill_in_process(identity);
  return identity;
}

Digest key(std::string_view secret) {
  Digest digest;
  EXPECT_TRUE(key_from_secret(secret, &digest));
  return digest;
}

struct Outcome {
  Status dialer;
  Status acceptor;
};

// Passes messages on until nothing moves; `tamper` may change the n-th one.
template <typename Tamper>
Outcome talk(Handshake& dialer, Handshake& acceptor, Tamper tamper) {
  HandshakeReplies to_acceptor;
  HandshakeReplies to_dialer;
  Outcome outcome;
  outcome.acceptor = acceptor.start(to_dialer);
  outcome.dialer = dialer.start(to_acceptor);
  for (int number = 0; !to_acceptor.empty() || !to_dialer.empty();) {
    HandshakeReplies batch = std::exchange(to_acceptor, {});
    for (HandshakeReply& message : batch) {
      tamper(number++, message);
      const Status status =
          acceptor.on_message(static_cast<uint16_t>(message.type), message.body, to_dialer);
      if (!status.ok()) outcome.acceptor = status;
    }
    batch = std::exchange(to_dialer, {});
    for (HandshakeReply& message : batch) {
      tamper(number++, message);
      const Status status =
          dialer.on_message(static_cast<uint16_t>(message.type), message.body, to_acceptor);
      if (!status.ok()) outcome.dialer = status;
    }
  }
  return outcome;
}

Outcome talk(Handshake& dialer, Handshake& acceptor) {
  return talk(dialer, acceptor, [](int, HandshakeReply&) {});
}

TEST(Handshake, AuthenticatesBothSides) {
  Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
  Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
  const Outcome outcome = talk(dialer, acceptor);
  EXPECT_TRUE(outcome.dialer.ok());
  EXPECT_TRUE(outcome.acceptor.ok());
  ASSERT_TRUE(dialer.done() && acceptor.done());
  EXPECT_EQ(dialer.peer().rank, 1U);
  EXPECT_EQ(acceptor.peer().rank, 2U);
  EXPECT_EQ(acceptor.peer().library_version, "0.1.0");
  EXPECT_EQ(dialer.send_key(), acceptor.receive_key());
  EXPECT_EQ(dialer.receive_key(), acceptor.send_key());
  EXPECT_NE(dialer.send_key(), dialer.receive_key());
}

TEST(Handshake, GivesEverySessionItsOwnKeys) {
  Digest first{};
  for (int i = 0; i < 2; ++i) {
    Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
    Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
    talk(dialer, acceptor);
    if (i == 0) first = dialer.send_key();
    if (i == 1) {
      EXPECT_NE(first, dialer.send_key());
    }
  }
}

TEST(Handshake, TellsBothSidesThatTheSecretsDiffer) {
  Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
  Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("other"), identity(1));
  const Outcome outcome = talk(dialer, acceptor);
  EXPECT_FALSE(dialer.done() || acceptor.done());
  for (const Status& status : {outcome.dialer, outcome.acceptor}) {
    EXPECT_EQ(status.code(), Code::kRefused);
    EXPECT_NE(status.text().find("secret"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("rank 2"), std::string::npos) << status.text();
  }
}

TEST(Handshake, RefusesAnotherPurpose) {
  Handshake dialer(Side::kDialer, Purpose::kRendezvous, key("s"), identity(2));
  Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
  const Outcome outcome = talk(dialer, acceptor);
  EXPECT_EQ(outcome.dialer.code(), Code::kRefused);
  EXPECT_NE(outcome.dialer.text().find("not to the rendezvous"), std::string::npos);
}

TEST(Handshake, NamesAnotherWireVersion) {
  Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
  Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
  const Outcome outcome = talk(dialer, acceptor, [](int number, HandshakeReply& message) {
    if (number == 0) message.body[4] = std::byte{9};
  });
  EXPECT_EQ(outcome.dialer.code(), Code::kMismatch);
  EXPECT_EQ(outcome.acceptor.code(), Code::kMismatch);
  EXPECT_NE(outcome.dialer.text().find("version 9"), std::string::npos) << outcome.dialer.text();
}

TEST(Handshake, NoticesEveryChangedByteOfTheTranscript) {
  size_t lengths[3] = {};
  {
    Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
    Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
    talk(dialer, acceptor,
         [&](int number, HandshakeReply& message) { lengths[number] = message.body.size(); });
  }
  for (int target = 0; target < 3; ++target) {
    for (size_t at = 0; at < lengths[target]; ++at) {
      Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
      Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
      talk(dialer, acceptor, [&](int number, HandshakeReply& message) {
        if (number == target && at < message.body.size()) message.body[at] ^= std::byte{0x20};
      });
      EXPECT_FALSE(dialer.done() && acceptor.done()) << target << " " << at;
      EXPECT_FALSE(acceptor.done()) << target << " " << at;
    }
  }
}

// An acceptor that echoes what it gets must not look like one that knows the secret.
TEST(Handshake, IsNotFooledByReflection) {
  Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
  Handshake oracle(Side::kAcceptor, Purpose::kPeer, key("s"), identity(2));
  HandshakeReplies hello;
  HandshakeReplies reply;
  HandshakeReplies out;
  ASSERT_TRUE(dialer.start(hello).ok());
  ASSERT_TRUE(oracle.start(out).ok());
  ASSERT_TRUE(oracle.on_message(1, hello[0].body, reply).ok());
  HandshakeReplies proof;
  ASSERT_TRUE(dialer.on_message(2, reply[0].body, proof).ok());
  // The acceptor's own proof, sent back to it.
  const ByteSpan own = ByteSpan(reply[0].body).last(32);
  EXPECT_EQ(oracle.on_message(3, own, out).code(), Code::kRefused);
}

TEST(Handshake, RefusesAReplayedProof) {
  HandshakeReply recorded[2];
  {
    Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
    Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
    talk(dialer, acceptor, [&](int number, HandshakeReply& message) {
      if (number != 1) recorded[number / 2] = message;
    });
    ASSERT_TRUE(acceptor.done());
  }
  Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
  HandshakeReplies out;
  ASSERT_TRUE(acceptor.start(out).ok());
  ASSERT_TRUE(acceptor.on_message(1, recorded[0].body, out).ok());
  EXPECT_EQ(acceptor.on_message(3, recorded[1].body, out).code(), Code::kRefused);
  EXPECT_FALSE(acceptor.done());
}

TEST(Handshake, AnswersNothingToStrangers) {
  Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
  HandshakeReplies replies;
  ASSERT_TRUE(acceptor.start(replies).ok());
  const std::string http = "GET / HTTP/1.1\r\n\r\n";
  EXPECT_EQ(acceptor.on_message(1, bytes_of(http), replies).code(), Code::kRefused);
  EXPECT_TRUE(replies.empty());
}

TEST(Handshake, SurvivesGarbageInEveryState) {
  std::mt19937 random(7);
  HandshakeReplies hello;
  Handshake honest(Side::kDialer, Purpose::kPeer, key("s"), identity(2));
  ASSERT_TRUE(honest.start(hello).ok());
  for (int round = 0; round < 4000; ++round) {
    Handshake target(round % 2 == 0 ? Side::kAcceptor : Side::kDialer, Purpose::kPeer, key("s"),
                     identity(1));
    HandshakeReplies replies;
    ASSERT_TRUE(target.start(replies).ok());
    for (int step = 0; step < 3; ++step) {
      // Mutations of a true opening get further than noise.
      std::vector<std::byte> body = hello[0].body;
      body.resize(random() % (body.size() + 40));
      for (uint32_t flips = random() % 4; flips > 0 && !body.empty(); --flips) {
        body[random() % body.size()] = static_cast<std::byte>(random());
      }
      static_cast<void>(target.on_message(static_cast<uint16_t>(random() % 6), body, replies));
    }
    EXPECT_FALSE(target.done());
  }
}

TEST(Handshake, MakesTextsFromOutsidePrintable) {
  Identity odd = identity(2);
  odd.host = "node\n\x1b[2Jforged line";
  Handshake dialer(Side::kDialer, Purpose::kPeer, key("s"), odd);
  Handshake acceptor(Side::kAcceptor, Purpose::kPeer, key("s"), identity(1));
  talk(dialer, acceptor);
  ASSERT_TRUE(acceptor.done());
  EXPECT_EQ(acceptor.peer().host, "node??[2Jforged line");
}

TEST(Refusal, KeepsCodeAndTextAndNeverReadsAsSuccess) {
  const Status back = decode_refusal(encode_refusal(Status(Code::kMismatch, "text")));
  EXPECT_EQ(back.code(), Code::kMismatch);
  EXPECT_EQ(back.text(), "text");
  EXPECT_FALSE(decode_refusal(encode_refusal(Status(Code::kOk, "fine"))).ok());
  EXPECT_EQ(decode_refusal(encode_refusal(Status(static_cast<Code>(77), "x"))).code(),
            Code::kRefused);
  EXPECT_FALSE(decode_refusal({}).ok());
}

TEST(Hmac, MatchesRfc4231) {
  Digest key_bytes{};
  const std::string_view text = "what do ya want for nothing?";
  // Case 2: the key "Jefe", padded with zeros as HMAC does itself.
  const std::string_view jefe = "Jefe";
  for (size_t i = 0; i < jefe.size(); ++i) key_bytes[i] = static_cast<std::byte>(jefe[i]);
  Hmac mac;
  ASSERT_TRUE(mac.set_key(key_bytes));
  for (int i = 0; i < 2; ++i) {  // the second time with the same context
    Digest digest;
    ASSERT_TRUE(mac.compute({bytes_of(text.substr(0, 10)), bytes_of(text.substr(10))}, &digest));
    EXPECT_EQ(digest[0], std::byte{0x5b});
    EXPECT_EQ(digest[1], std::byte{0xdc});
    EXPECT_EQ(digest[30], std::byte{0x38});
    EXPECT_EQ(digest[31], std::byte{0x43});
  }
}

}  // namespace
}  // namespace asyncmesh::mesh
