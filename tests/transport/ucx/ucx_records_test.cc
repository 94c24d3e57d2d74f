// What peers tell each other before UCX is involved, and which transports an engine may use.
#include <gtest/gtest.h>

#include <cstring>

#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_info.h"
#include "transport/ucx/ucx_offer.h"

namespace asyncmesh::transport {
namespace {

UcxOffer some_offer() {
  UcxOffer offer;
  offer.engine = UcxEngine::kRma;
  offer.epoch = 3;
  offer.lane = 9;
  offer.slots = 4;
  offer.slot_bytes = 504;
  return offer;
}

Bytes some_bytes(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

TEST(UcxOffer, ComesBackWhole) {
  const Bytes worker = some_bytes(90);
  const Bytes key = some_bytes(37);
  UcxOffer offer = some_offer();
  offer.arena = 0x1234;
  const Bytes packed = pack(offer, worker, key);
  const auto parsed = parse_ucx_offer(packed, some_offer());
  ASSERT_TRUE(parsed.ok()) << parsed.status().text();
  EXPECT_EQ(parsed.value().offer.arena, 0x1234u);
  EXPECT_EQ(Bytes(parsed.value().worker.begin(), parsed.value().worker.end()), worker);
  EXPECT_EQ(Bytes(parsed.value().key.begin(), parsed.value().key.end()), key);
}

TEST(UcxOffer, AnyDamagedByteIsRefused) {
  const Bytes packed = pack(some_offer(), some_bytes(20), some_bytes(10));
  for (size_t at = 0; at < packed.size(); ++at) {
    Bytes damaged = packed;
    damaged[at] ^= std::byte{0x10};
    EXPECT_EQ(parse_ucx_offer(damaged, some_offer()).code(), Code::kMismatch) << at;
  }
}

TEST(UcxOffer, AnyShorterOneIsRefused) {
  const Bytes packed = pack(some_offer(), some_bytes(20), some_bytes(10));
  for (size_t bytes = 0; bytes < packed.size(); ++bytes) {
    const auto parsed = parse_ucx_offer(std::span(packed).first(bytes), some_offer());
    EXPECT_EQ(parsed.code(), Code::kMismatch) << bytes;
  }
}

TEST(UcxOffer, AnotherLaneEpochOrGeometryIsRefused) {
  const Bytes packed = pack(some_offer(), some_bytes(20), {});
  UcxOffer other = some_offer();
  other.epoch = 4;
  EXPECT_EQ(parse_ucx_offer(packed, other).code(), Code::kMismatch);
  other = some_offer();
  other.lane = 8;
  EXPECT_EQ(parse_ucx_offer(packed, other).code(), Code::kMismatch);
  other = some_offer();
  other.slots = 8;
  EXPECT_EQ(parse_ucx_offer(packed, other).code(), Code::kMismatch);
  other = some_offer();
  other.engine = UcxEngine::kTag;
  EXPECT_EQ(parse_ucx_offer(packed, other).code(), Code::kMismatch);
}

TEST(UcxAddress, TellsItsNodeAndHost) {
  const UcxAddress own = own_ucx_address(UcxEngine::kTag);
  const auto parsed = parse_ucx_address(pack(own), UcxEngine::kTag);
  ASSERT_TRUE(parsed.ok()) << parsed.status().text();
  EXPECT_EQ(parsed.value().node, own.node);
  EXPECT_EQ(parsed.value().host, own_ucx_address(UcxEngine::kRma).host);
  EXPECT_NE(own.node, own_ucx_address(UcxEngine::kTag).node);
}

TEST(UcxAddress, AnotherMinorVersionOfUcxIsAMismatch) {
  UcxAddress address = own_ucx_address(UcxEngine::kTag);
  ++address.ucx_minor;
  const auto parsed = parse_ucx_address(pack(address), UcxEngine::kTag);
  EXPECT_EQ(parsed.code(), Code::kMismatch);
  EXPECT_NE(parsed.status().text().find("the peer runs UCX"), std::string::npos);
}

TEST(UcxAddress, AnotherEngineIsAMismatch) {
  const Bytes packed = pack(own_ucx_address(UcxEngine::kTag));
  EXPECT_EQ(parse_ucx_address(packed, UcxEngine::kRma).code(), Code::kMismatch);
}

TEST(UcxAddress, GarbageIsInvalid) {
  EXPECT_EQ(parse_ucx_address({}, UcxEngine::kTag).code(), Code::kInvalidArgument);
  EXPECT_EQ(parse_ucx_address(some_bytes(32), UcxEngine::kTag).code(), Code::kInvalidArgument);
  EXPECT_EQ(parse_ucx_address(some_bytes(500), UcxEngine::kTag).code(), Code::kInvalidArgument);
}

TEST(NativeRma, NeverIncludesTcp) {
  for (const char* user : {"", "tcp", "all", "tcp,shm", "^ib"}) {
    EXPECT_EQ(native_rma_tls("tcp", user, true), "") << user;
    EXPECT_EQ(native_rma_tls("auto", user, true).find("tcp"), std::string::npos) << user;
  }
}

TEST(NativeRma, FollowsTheUsersList) {
  EXPECT_EQ(native_rma_tls("auto", "", false), "sysv");
  EXPECT_EQ(native_rma_tls("auto", "", true), "sysv,rc");
  EXPECT_EQ(native_rma_tls("auto", "all", true), "sysv,rc");
  EXPECT_EQ(native_rma_tls("auto", "tcp,posix", true), "posix");
  EXPECT_EQ(native_rma_tls("auto", "shm", true), "sysv");
  EXPECT_EQ(native_rma_tls("auto", "rc_verbs", true), "rc");
  EXPECT_EQ(native_rma_tls("auto", "^sysv", false), "posix");
  EXPECT_EQ(native_rma_tls("auto", "^shm", false), "");
  EXPECT_EQ(native_rma_tls("auto", "^ib", true), "sysv");
  EXPECT_EQ(native_rma_tls("auto", "tcp", true), "");
}

TEST(NativeRma, AnExplicitChoiceOfSharedMemoryIgnoresTheUsersList) {
  EXPECT_EQ(native_rma_tls("shm", "tcp", true), "sysv");
}

TEST(UcxInfo, NamesVersionPathAndTransports) {
  const UcxInfo info = ucx_info();
  EXPECT_FALSE(info.version.empty());
  EXPECT_NE(info.path.find("libucp"), std::string::npos) << info.path;
  EXPECT_FALSE(info.resources.empty()) << info.error;
}

}  // namespace
}  // namespace asyncmesh::transport
