// Channels and mailboxes between ranks, through the C API, over every medium.
#include <algorithm>

#include "capi/ranks.h"

namespace asyncmesh_test {
namespace {

asyncmesh_port_t* open_port(const Rank& rank, uint32_t kind, uint32_t peer, uint32_t tag,
                            uint32_t slots = 8, uint32_t payload = 4096, uint64_t key = 0) {
  asyncmesh_port_config_t config = ASYNCMESH_PORT_CONFIG_INIT;
  config.kind = kind;
  config.peer = peer;
  config.tag = tag;
  config.slots = slots;
  config.payload_bytes = payload;
  config.key = key;
  asyncmesh_port_t* port = nullptr;
  CHECK_OK(asyncmesh_port_open(rank.mesh, &config, &port));
  return port;
}

std::vector<uint8_t> payload_of(uint64_t number) {
  std::vector<uint8_t> payload(number * 37 % 4000);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(number + i);
  return payload;
}

void send_number(asyncmesh_port_t* port, uint64_t number, int64_t timeout = 20 * kSecond) {
  const std::vector<uint8_t> payload = payload_of(number);
  asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
  send.data = payload.data();
  send.bytes = payload.size();
  send.micro_batch = number;
  send.version = number / 2;
  send.dtype = ASYNCMESH_UINT8;
  send.dimensions = 2;
  send.shape[0] = 1;
  send.shape[1] = static_cast<uint32_t>(payload.size());
  send.timeout_ns = timeout;
  CHECK_OK(asyncmesh_port_send(port, &send));
}

void expect_number(asyncmesh_port_t* port, uint64_t number) {
  asyncmesh_message_t message = {};
  message.struct_size = sizeof message;
  CHECK_OK(asyncmesh_port_recv(port, number, 20 * kSecond, &message));
  EXPECT_EQ(message.micro_batch, number);
  EXPECT_EQ(message.version, number / 2);
  EXPECT_EQ(message.staleness, static_cast<int64_t>(number - number / 2));
  EXPECT_EQ(message.dtype, ASYNCMESH_UINT8);
  EXPECT_EQ(message.dimensions, 2u);
  const std::vector<uint8_t> payload = payload_of(number);
  ASSERT_EQ(message.bytes, payload.size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(message.data) % 16, 0u);
  EXPECT_TRUE(
      std::equal(payload.begin(), payload.end(), static_cast<const uint8_t*>(message.data)));
  CHECK_OK(asyncmesh_port_release(port, message.token));
  EXPECT_EQ(asyncmesh_port_release(port, message.token), ASYNCMESH_INVALID_ARGUMENT);
}

class Ports : public testing::TestWithParam<Medium> {};
INSTANTIATE_TEST_SUITE_P(Media, Ports, testing::ValuesIn(kMedia),
                         [](const auto& medium) { return medium.param.name; });

TEST_P(Ports, CarryUnevenFramesInOrderBothWays) {
  constexpr uint64_t kFrames = 300;
  run_ranks(over(GetParam(), {.replicas = 1, .stages = 2}), [](Rank& rank) {
    const uint32_t peer = 1 - rank.rank;
    asyncmesh_port_t* out = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, peer, 1);
    asyncmesh_port_t* in = open_port(rank, ASYNCMESH_PORT_CHANNEL_IN, peer, 1);
    for (uint64_t i = 0; i < kFrames; ++i) {
      send_number(out, i);
      if (i >= 4) expect_number(in, i - 4);
    }
    for (uint64_t i = kFrames - 4; i < kFrames; ++i) expect_number(in, i);
    rank.leave();
    asyncmesh_port_close(out);
    asyncmesh_port_close(in);
  });
}

TEST_P(Ports, MailboxReachesEveryOtherReplica) {
  run_ranks(over(GetParam(), {.replicas = 3, .stages = 1}), [](Rank& rank) {
    asyncmesh_port_t* box = open_port(rank, ASYNCMESH_PORT_MAILBOX, 0, 4);
    for (uint64_t i = 0; i < 5; ++i) send_number(box, 100 * rank.rank + i);
    uint64_t next[3] = {0, 100, 200};
    for (int received = 0; received < 10; ++received) {
      asyncmesh_message_t message = {};
      message.struct_size = sizeof message;
      CHECK_OK(asyncmesh_port_recv(box, 0, 20 * kSecond, &message));
      ASSERT_LT(message.source, 3u);
      ASSERT_NE(message.source, rank.rank);
      EXPECT_EQ(message.micro_batch, next[message.source]++);
      const std::vector<uint8_t> payload = payload_of(message.micro_batch);
      ASSERT_EQ(message.bytes, payload.size());
      EXPECT_TRUE(
          std::equal(payload.begin(), payload.end(), static_cast<const uint8_t*>(message.data)));
      CHECK_OK(asyncmesh_port_release(box, message.token));
    }
    rank.leave();
    asyncmesh_port_close(box);
  });
}

// The sender runs ahead of the receiver: it opens, sends and closes without looking back.
TEST_P(Ports, WhatWasSentBeforeACloseArrives) {
  constexpr uint64_t kPorts = 30;
  constexpr uint64_t kFrames = 5;
  run_ranks(over(GetParam(), {.replicas = 1, .stages = 2}), [](Rank& rank) {
    for (uint64_t i = 0; i < kPorts; ++i) {
      if (rank.rank == 0) {
        asyncmesh_port_t* out = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, 1, 1);
        for (uint64_t frame = 0; frame < kFrames; ++frame) send_number(out, kFrames * i + frame, 0);
        asyncmesh_port_close(out);
        continue;
      }
      asyncmesh_port_t* in = open_port(rank, ASYNCMESH_PORT_CHANNEL_IN, 0, 1);
      for (uint64_t frame = 0; frame < kFrames; ++frame) expect_number(in, kFrames * i + frame);
      asyncmesh_message_t message = {};
      message.struct_size = sizeof message;
      EXPECT_EQ(asyncmesh_port_recv(in, 0, 20 * kSecond, &message), ASYNCMESH_CANCELED);
      asyncmesh_port_close(in);
    }
    rank.leave();
  });
}

// Neither opens what the other has sent to, and neither waits for that when it leaves.
TEST_P(Ports, NobodyWaitsForPortsThatALeavingPeerWillNotOpen) {
  run_ranks(over(GetParam(), {.replicas = 1, .stages = 2}), [](Rank& rank) {
    asyncmesh_port_t* out = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, 1 - rank.rank, 1);
    asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
    const asyncmesh_status_t status = asyncmesh_port_send(out, &send);
    EXPECT_TRUE(status == ASYNCMESH_OK || status == ASYNCMESH_CANCELED) << status;  // it was faster
    if (rank.rank == 0) asyncmesh_port_close(out);
    rank.leave();
    if (rank.rank != 0) asyncmesh_port_close(out);
  });
}

TEST(Port, BoundsAnswerAgainAndReadinessIsPolled) {
  run_ranks({.replicas = 1, .stages = 2}, [](Rank& rank) {
    if (rank.rank == 0) {
      asyncmesh_port_t* out = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, 1, 1, 4, 4096, 77);
      for (uint64_t i = 0; i < 4; ++i) send_number(out, i, 0);
      asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
      EXPECT_EQ(asyncmesh_port_send(out, &send), ASYNCMESH_AGAIN);
      asyncmesh_port_t* go = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, 1, 2);
      send_number(go, 0);
      // Room comes when the consumer has taken something.
      asyncmesh_event_t events[4];
      events[0].struct_size = sizeof events[0];
      uint32_t count = 0;
      CHECK_OK(asyncmesh_context_poll(rank.context, events, 4, &count, 20 * kSecond));
      EXPECT_EQ(count, 1u);
      EXPECT_EQ(events[0].kind, static_cast<uint32_t>(ASYNCMESH_EVENT_PORT_READY));
      EXPECT_EQ(events[0].port_key, 77u);
      send_number(out, 4, 0);
      rank.leave();
      asyncmesh_port_close(out);
      asyncmesh_port_close(go);
    } else {
      asyncmesh_port_t* go = open_port(rank, ASYNCMESH_PORT_CHANNEL_IN, 0, 2);
      expect_number(go, 0);
      asyncmesh_port_t* in = open_port(rank, ASYNCMESH_PORT_CHANNEL_IN, 0, 1, 4, 4096, 5);
      asyncmesh_event_t events[4];
      events[0].struct_size = sizeof events[0];
      uint32_t count = 0;
      CHECK_OK(asyncmesh_context_poll(rank.context, events, 4, &count, 20 * kSecond));
      EXPECT_EQ(events[0].port_key, 5u);
      for (uint64_t i = 0; i < 5; ++i) expect_number(in, i);
      rank.leave();
      asyncmesh_port_close(in);
      asyncmesh_port_close(go);
    }
  });
}

TEST(Port, RefusesWhatDoesNotFit) {
  run_ranks({.replicas = 1, .stages = 2}, [](Rank& rank) {
    asyncmesh_port_t* port =
        open_port(rank, rank.rank == 0 ? ASYNCMESH_PORT_CHANNEL_OUT : ASYNCMESH_PORT_CHANNEL_IN,
                  1 - rank.rank, 1, 4, 64);
    std::vector<uint8_t> large(65);
    asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
    send.data = large.data();
    send.bytes = large.size();
    if (rank.rank == 0) {
      EXPECT_EQ(asyncmesh_port_send(port, &send), ASYNCMESH_TOO_LARGE);
      EXPECT_NE(std::string(asyncmesh_last_error()).find("64"), std::string::npos);
      asyncmesh_message_t message = {};
      message.struct_size = sizeof message;
      EXPECT_EQ(asyncmesh_port_recv(port, 0, 0, &message), ASYNCMESH_INVALID_STATE);
    } else {
      send.bytes = 1;
      EXPECT_EQ(asyncmesh_port_send(port, &send), ASYNCMESH_INVALID_STATE);
    }
    asyncmesh_port_close(port);
  });
}

TEST(Port, TellsBothEndsOfAMismatch) {
  run_ranks({.replicas = 1, .stages = 2}, [](Rank& rank) {
    asyncmesh_port_t* port =
        open_port(rank, rank.rank == 0 ? ASYNCMESH_PORT_CHANNEL_OUT : ASYNCMESH_PORT_CHANNEL_IN,
                  1 - rank.rank, 1, 4, rank.rank == 0 ? 64 : 128);
    asyncmesh_status_t status = ASYNCMESH_OK;
    if (rank.rank == 0) {
      asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
      send.timeout_ns = 20 * kSecond;
      while (status == ASYNCMESH_OK) status = asyncmesh_port_send(port, &send);
    } else {
      asyncmesh_message_t message = {};
      message.struct_size = sizeof message;
      status = asyncmesh_port_recv(port, 0, 20 * kSecond, &message);
    }
    EXPECT_EQ(status, ASYNCMESH_MISMATCH) << asyncmesh_last_error();
    asyncmesh_port_close(port);
  });
}

TEST(Port, APeerThatLeavesIsNotALossAndItsFramesStayReadable) {
  run_ranks({.replicas = 1, .stages = 2, .leave = false}, [](Rank& rank) {
    asyncmesh_port_t* port =
        open_port(rank, rank.rank == 0 ? ASYNCMESH_PORT_CHANNEL_OUT : ASYNCMESH_PORT_CHANNEL_IN,
                  1 - rank.rank, 1);
    if (rank.rank == 0) {
      for (uint64_t i = 0; i < 8; ++i) send_number(port, i);
      rank.leave();
      asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
      EXPECT_EQ(asyncmesh_port_send(port, &send), ASYNCMESH_CANCELED);
    } else {
      asyncmesh_event_t event;
      do {
        event.struct_size = sizeof event;
        uint32_t count = 0;
        asyncmesh_peer_info_t peer = {};
        peer.struct_size = sizeof peer;
        CHECK_OK(asyncmesh_mesh_peer(rank.mesh, 0, &peer));
        CHECK_OK(asyncmesh_context_poll(rank.context, &event, 1, &count, 20 * kSecond));
      } while (event.kind != ASYNCMESH_EVENT_PEER_LEFT);
      for (uint64_t i = 0; i < 8; ++i) expect_number(port, i);
      asyncmesh_message_t message = {};
      message.struct_size = sizeof message;
      EXPECT_EQ(asyncmesh_port_recv(port, 0, -1, &message), ASYNCMESH_CANCELED);
      EXPECT_NE(std::string(asyncmesh_last_error()).find("rank 0 left"), std::string::npos);
    }
    asyncmesh_port_close(port);
  });
}

TEST(Port, ALostPeerIsNamed) {
  RankSetup setup{.replicas = 1, .stages = 2, .leave = false};
  setup.peer_timeout = 2 * kSecond;
  run_ranks(setup, [](Rank& rank) {
    if (rank.rank == 0) {
      // Goes without a word once the other end is there.
      asyncmesh_port_t* go = open_port(rank, ASYNCMESH_PORT_CHANNEL_IN, 1, 2);
      expect_number(go, 0);
      asyncmesh_port_close(go);
      return;
    }
    asyncmesh_port_t* go = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, 0, 2);
    send_number(go, 0);
    asyncmesh_event_t event;
    do {
      event.struct_size = sizeof event;
      uint32_t count = 0;
      CHECK_OK(asyncmesh_context_poll(rank.context, &event, 1, &count, 20 * kSecond));
    } while (event.kind != ASYNCMESH_EVENT_PEER_LOST);
    EXPECT_EQ(event.rank, 0u);
    asyncmesh_peer_info_t peer = {};
    peer.struct_size = sizeof peer;
    CHECK_OK(asyncmesh_mesh_peer(rank.mesh, 0, &peer));
    EXPECT_EQ(peer.state, static_cast<uint32_t>(ASYNCMESH_PEER_STATE_LOST));
    EXPECT_STRNE(peer.reason, "");
    asyncmesh_port_t* late = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, 0, 3);
    asyncmesh_send_t send = ASYNCMESH_SEND_INIT;
    EXPECT_EQ(asyncmesh_port_send(late, &send), ASYNCMESH_PEER_LOST);
    EXPECT_NE(std::string(asyncmesh_last_error()).find("rank 0 is lost"), std::string::npos)
        << asyncmesh_last_error();
    asyncmesh_port_close(late);
    asyncmesh_port_close(go);
  });
}

TEST_P(Ports, ManualProgressMovesInsideBlockingCalls) {
  RankSetup setup = over(GetParam(), {.replicas = 1, .stages = 2});
  setup.progress = ASYNCMESH_PROGRESS_MANUAL;
  run_ranks(setup, [](Rank& rank) {
    const uint32_t peer = 1 - rank.rank;
    asyncmesh_port_t* out = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, peer, 1, 4);
    asyncmesh_port_t* in = open_port(rank, ASYNCMESH_PORT_CHANNEL_IN, peer, 1, 4);
    for (uint64_t i = 0; i < 50; ++i) {
      send_number(out, i);
      uint32_t work = 0;
      CHECK_OK(asyncmesh_context_do_work(rank.context, &work));
      expect_number(in, i);
    }
    rank.leave();
    asyncmesh_port_close(out);
    asyncmesh_port_close(in);
  });
}

TEST_P(Ports, FaultsLoseAndDoubleNothing) {
  RankSetup setup = over(GetParam(), {.replicas = 1, .stages = 2});
  setup.faults =
      "seed=3,drop=0.01,duplicate=0.02,delay=0.02,corrupt=0.01,drop_credit=0.02,cut=0.005,"
      "max_faults=40";
  setup.peer_timeout = 800'000'000;
  run_ranks(setup, [](Rank& rank) {
    const uint32_t peer = 1 - rank.rank;
    asyncmesh_port_t* out = open_port(rank, ASYNCMESH_PORT_CHANNEL_OUT, peer, 1);
    asyncmesh_port_t* in = open_port(rank, ASYNCMESH_PORT_CHANNEL_IN, peer, 1);
    for (uint64_t i = 0; i < 300; ++i) {
      send_number(out, i, 60 * kSecond);
      if (i >= 4) expect_number(in, i - 4);
    }
    for (uint64_t i = 296; i < 300; ++i) expect_number(in, i);
    rank.leave();
    asyncmesh_port_close(out);
    asyncmesh_port_close(in);
  });
}

}  // namespace
}  // namespace asyncmesh_test
