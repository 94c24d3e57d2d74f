#include "core/engines.h"

#include <gtest/gtest.h>

#include "core/env_config.h"

namespace asyncmesh::core {
namespace {

EngineOffer offer(EngineChoice choice, std::vector<Engine> engines) {
  EngineOffer offer;
  offer.choice = choice;
  for (const Engine engine : engines) offer.addresses.push_back({engine, {std::byte{1}}});
  return offer;
}

const EngineOffer kBoth = offer(EngineChoice::kAuto, {Engine::kRma, Engine::kTag});
const EngineOffer kTagOnly = offer(EngineChoice::kAuto, {Engine::kTag});

TEST(Engines, RmaWithinAHostTagElsewhere) {
  EXPECT_EQ(choose_engine(kBoth, kBoth, true).value(), Engine::kRma);
  EXPECT_EQ(choose_engine(kBoth, kBoth, false).value(), Engine::kTag);
  EXPECT_EQ(choose_engine(kBoth, kTagOnly, true).value(), Engine::kTag);
}

TEST(Engines, BothEndsChooseTheSame) {
  const EngineOffer offers[] = {kBoth, kTagOnly, offer(EngineChoice::kTag, {Engine::kTag}),
                                offer(EngineChoice::kRma, {Engine::kRma}),
                                offer(EngineChoice::kLoopback, {Engine::kLoopback})};
  for (const EngineOffer& a : offers) {
    for (const EngineOffer& b : offers) {
      for (const bool same_host : {false, true}) {
        const auto one = choose_engine(a, b, same_host);
        const auto other = choose_engine(b, a, same_host);
        ASSERT_EQ(one.ok(), other.ok());
        if (!one.ok()) continue;
        EXPECT_EQ(one.value(), other.value());
      }
    }
  }
}

TEST(Engines, ForcedEnginesMustAgree) {
  const EngineOffer tag = offer(EngineChoice::kTag, {Engine::kTag});
  const EngineOffer rma = offer(EngineChoice::kRma, {Engine::kRma});
  EXPECT_EQ(choose_engine(tag, rma, true).code(), Code::kMismatch);
  EXPECT_EQ(choose_engine(kBoth, rma, false).value(), Engine::kRma);
  EXPECT_EQ(choose_engine(kTagOnly, rma, true).code(), Code::kUnsupported);
}

TEST(Engines, OfferSurvivesTheWire) {
  const auto bytes = encode(kBoth);
  const auto back = decode_engine_offer(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(encode(back.value()), bytes);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_engine_offer(std::span(bytes).first(length)).ok());
}

TEST(Engines, FaultsAreParsedOrNamed) {
  const auto faults = parse_faults("seed=9,drop=0.25,cut=1,max_faults=7");
  ASSERT_TRUE(faults.ok());
  EXPECT_EQ(faults.value().seed, 9u);
  EXPECT_EQ(faults.value().drop, 0.25);
  EXPECT_EQ(faults.value().cut, 1.0);
  EXPECT_EQ(faults.value().max_faults, 7u);
  for (const char* wrong : {"drop", "drop=2", "drop=-1", "drop=x", "rain=1", "seed=-1", "drop=nan"})
    EXPECT_EQ(parse_faults(wrong).code(), Code::kInvalidArgument) << wrong;
}

TEST(Engines, RmaOverTcpIsRefused) {
  ContextConfig config;
  config.engine = EngineChoice::kRma;
  config.tls = "tcp";
  EXPECT_EQ(check_engines(config).code(), Code::kUnsupported);
}

mesh::Environment environment(std::vector<std::pair<std::string, std::string>> variables) {
  mesh::Environment environment;
  environment.variable = [variables](const char* name) -> std::optional<std::string> {
    for (const auto& [key, value] : variables) {
      if (key == name) return value;
    }
    return std::nullopt;
  };
  return environment;
}

TEST(EnvConfig, ReadsTheContextsVariables) {
  const auto config =
      context_config_from_environment(environment({{"ASYNCMESH_ENGINE", "tag"},
                                                   {"ASYNCMESH_TLS", "tcp"},
                                                   {"ASYNCMESH_LINK", "1Gbit,1ms"},
                                                   {"ASYNCMESH_KERNEL_THREADS", "8"},
                                                   {"ASYNCMESH_LOG", "info"}}));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().engine, EngineChoice::kTag);
  EXPECT_EQ(config.value().tls, "tcp");
  EXPECT_EQ(config.value().link, "1Gbit,1ms");
  EXPECT_EQ(config.value().log_fd, 2);
  EXPECT_EQ(config.value().log_level, LogLevel::kInfo);
  EXPECT_EQ(config.value().kernel_threads, 8U);
}

// An empty ASYNCMESH_ENGINE was once "none of auto, tag, ...".
TEST(EnvConfig, EmptyCountsAsAbsent) {
  std::vector<std::pair<std::string, std::string>> empty;
  for (const char* name : {"ENGINE", "TLS", "NET_DEVICES", "LINK", "FAULTS", "PROGRESS", "CHECKSUM",
                           "LOG", "KERNEL_THREADS"})
    empty.emplace_back(std::string("ASYNCMESH_") + name, "");
  const auto config = context_config_from_environment(environment(empty));
  ASSERT_TRUE(config.ok()) << config.status().text();
  const ContextConfig defaults;
  EXPECT_EQ(config.value().engine, defaults.engine);
  EXPECT_EQ(config.value().progress, defaults.progress);
  EXPECT_EQ(config.value().checksum, defaults.checksum);
  EXPECT_EQ(config.value().log_fd, defaults.log_fd);
  EXPECT_EQ(config.value().kernel_threads, 1U);
  EXPECT_EQ(config.value().tls + config.value().link + config.value().faults, "");
}

TEST(EnvConfig, NamesAVariableThatDoesNotParse) {
  const auto wrong = context_config_from_environment(environment({{"ASYNCMESH_ENGINE", "warp"}}));
  ASSERT_EQ(wrong.code(), Code::kInvalidArgument);
  EXPECT_NE(wrong.status().text().find("ASYNCMESH_ENGINE='warp'"), std::string::npos);
  EXPECT_EQ(context_config_from_environment(environment({{"ASYNCMESH_LINK", "fast"}})).code(),
            Code::kInvalidArgument);
  for (const char* count : {"0", "257", "-1", "2x", " 2", "4294967298"}) {
    const auto threads =
        context_config_from_environment(environment({{"ASYNCMESH_KERNEL_THREADS", count}}));
    ASSERT_EQ(threads.code(), Code::kInvalidArgument) << count;
    EXPECT_NE(threads.status().text().find("from 1 to 256"), std::string::npos);
  }
}

}  // namespace
}  // namespace asyncmesh::core
