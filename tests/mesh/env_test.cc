#include "mesh/env.h"

#include <gtest/gtest.h>

#include <map>

namespace asyncmesh::mesh {
namespace {

using Variables = std::map<std::string, std::string>;

Result<MeshConfig> read(const Variables& variables, const Variables& files = {}) {
  Environment environment;
  environment.variable = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  environment.read_file = [&](const std::string& path) -> Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return Status(Code::kInvalidArgument, "cannot read " + path);
    return found->second;
  };
  return config_from_environment(environment);
}

void expect_refused(const Variables& variables, const std::string& mention) {
  const Status status = read(variables).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.text().find(mention), std::string::npos) << status.text();
}

TEST(Environment, IsAWorldOfOneWithoutALauncher) {
  auto config = read({});
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config.value().url.empty());
  EXPECT_EQ(config.value().replicas * config.value().stages, 1U);
}

TEST(Environment, UsesThePortAfterTorchruns) {
  auto config = read({{"RANK", "3"},
                      {"WORLD_SIZE", "4"},
                      {"MASTER_ADDR", "node1"},
                      {"MASTER_PORT", "29500"},
                      {"TORCHELASTIC_RUN_ID", "job"},
                      {"TORCHELASTIC_RESTART_COUNT", "2"}});
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config.value().url, "tcp://node1:29501");
  EXPECT_EQ(config.value().rank, 3U);
  EXPECT_EQ(config.value().replicas, 4U);
  EXPECT_EQ(config.value().run_id, "torchrun-job.2");
}

TEST(Environment, PutsAnIpv6MasterIntoBrackets) {
  auto config =
      read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "1"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().url, "tcp://[::1]:2");
}

TEST(Environment, DerivesReplicaAndStageFromRank) {
  auto config = read({{"ASYNCMESH_RANK", "5"},
                      {"ASYNCMESH_WORLD_SIZE", "6"},
                      {"ASYNCMESH_STAGES", "2"},
                      {"ASYNCMESH_RENDEZVOUS", "tcp://h:1"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().replicas, 3U);
  EXPECT_EQ(config.value().stages, 2U);
  EXPECT_EQ(config.value().replica, 2U);
  EXPECT_EQ(config.value().stage, 1U);
}

TEST(Environment, PrefersTheExplicitRendezvous) {
  auto config = read({{"RANK", "0"},
                      {"WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "node1"},
                      {"MASTER_PORT", "29500"},
                      {"ASYNCMESH_RENDEZVOUS", "tcp://other:7"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().url, "tcp://other:7");
}

TEST(Environment, FindsTheFirstHostOfASlurmStep) {
  auto config = read({{"SLURM_PROCID", "1"},
                      {"SLURM_NTASKS", "2"},
                      {"SLURM_JOB_ID", "1000"},
                      {"SLURM_STEP_ID", "3"},
                      {"SLURM_JOB_NODELIST", "rack1-node[07-09,12],gpu5"}});
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config.value().url, "tcp://rack1-node07:11003");
  EXPECT_EQ(config.value().run_id, "slurm-1000.3");
}

TEST(Environment, ExpandsNodeLists) {
  EXPECT_EQ(first_host("a"), "a");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("n[3]"), "n3");
  EXPECT_EQ(first_host("r[1-2]n[03,05]x"), "r1n03x");
  EXPECT_EQ(first_host("n[1-2"), "");
  EXPECT_EQ(first_host(""), "");
}

TEST(Environment, PrefersOpenMpiInsideASlurmJob) {
  const Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"SLURM_PROCID", "0"},
                               {"SLURM_NTASKS", "1"},
                               {"ASYNCMESH_RENDEZVOUS", "tcp://h:1"}};
  auto config = read(variables);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().rank, 1U);
  Variables without = variables;
  without.erase("ASYNCMESH_RENDEZVOUS");
  expect_refused(without, "ASYNCMESH_RENDEZVOUS");
}

TEST(Environment, RefusesWhatDoesNotFit) {
  const Variables good = {
      {"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}};
  const auto with = [&good](const std::string& name, const std::string& value) {
    Variables variables = good;
    variables[name] = value;
    return variables;
  };
  expect_refused(with("RANK", "4"), "RANK=4");
  expect_refused(with("RANK", "-1"), "RANK=\"-1\"");
  expect_refused(with("RANK", "1 "), "RANK");
  expect_refused(with("WORLD_SIZE", "0"), "WORLD_SIZE");
  expect_refused(with("WORLD_SIZE", "x"), "WORLD_SIZE");
  expect_refused(with("MASTER_PORT", "65535"), "MASTER_PORT");
  expect_refused(with("MASTER_ADDR", ""), "MASTER_ADDR");
  expect_refused(with("ASYNCMESH_STAGES", "3"), "ASYNCMESH_STAGES=3");
  expect_refused(with("ASYNCMESH_STAGES", "0"), "ASYNCMESH_STAGES");
  expect_refused(with("ASYNCMESH_PEER_TIMEOUT_MS", "fast"), "ASYNCMESH_PEER_TIMEOUT_MS");
  expect_refused(with("ASYNCMESH_EXTERNAL_RENDEZVOUS", "2"), "ASYNCMESH_EXTERNAL_RENDEZVOUS");
  expect_refused({{"ASYNCMESH_RENDEZVOUS", "tcp://h:1"}}, "ASYNCMESH_RANK");
  expect_refused({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "1"}}, "NODELIST");
}

TEST(Environment, ReadsTheSecretFromAFile) {
  auto config = read({{"ASYNCMESH_SECRET_FILE", "/s"}}, {{"/s", "hush\n"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().secret, "hush");
}

TEST(Environment, RefusesAnEmptyMissingOrDoubleSecret) {
  EXPECT_EQ(read({{"ASYNCMESH_SECRET_FILE", "/s"}}, {{"/s", "\n"}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(read({{"ASYNCMESH_SECRET_FILE", "/s"}}).code(), Code::kInvalidArgument);
  const Status both =
      read({{"ASYNCMESH_SECRET_FILE", "/s"}, {"ASYNCMESH_SECRET", "hush"}}).status();
  EXPECT_EQ(both.code(), Code::kInvalidArgument);
  EXPECT_EQ(both.text().find("hush"), std::string::npos);
}

TEST(Environment, TakesTheOptions) {
  auto config = read({{"ASYNCMESH_BIND_ADDRESS", "10.0.0.1"},
                      {"ASYNCMESH_ANNOUNCE_ADDRESS", "192.168.0.1"},
                      {"ASYNCMESH_PEER_TIMEOUT_MS", "2000"},
                      {"ASYNCMESH_RUN_ID", "mine"},
                      {"ASYNCMESH_EXTERNAL_RENDEZVOUS", "1"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().bind_address, "10.0.0.1");
  EXPECT_EQ(config.value().announce_address, "192.168.0.1");
  EXPECT_EQ(config.value().peer_timeout, 2'000'000'000);
  EXPECT_EQ(config.value().run_id, "mine");
  EXPECT_TRUE(config.value().external_rendezvous);
}

TEST(Environment, ReadsThisProcess) {
  const Environment environment = process_environment();
  EXPECT_FALSE(environment.variable("ASYNCMESH_NO_SUCH_VARIABLE").has_value());
  EXPECT_FALSE(environment.read_file("/nonexistent/secret").ok());
  EXPECT_FALSE(environment.read_file("/").ok());
  EXPECT_TRUE(environment.read_file("/proc/self/status").ok());
}

}  // namespace
}  // namespace asyncmesh::mesh
