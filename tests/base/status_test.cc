#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace asyncmesh {
namespace {

TEST(Status, IsOkByDefaultAndCarriesNoText) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(status.text().empty());
}

TEST(Status, AnnotatePutsContextInFrontOfAFailureOnly) {
  EXPECT_EQ(Status(Code::kTooLarge, "9 > 8").annotate("send").text(), "send: 9 > 8");
  EXPECT_EQ(Status().annotate("send").text(), "");
}

TEST(Status, EveryCodeHasANameAndAText) {
#define ASYNCMESH_TEST_CODE(name, value, text) \
  EXPECT_EQ(code_name(Code::k##name), #name);  \
  EXPECT_EQ(code_text(Code::k##name), text);   \
  EXPECT_EQ(static_cast<int>(Code::k##name), value);
  ASYNCMESH_STATUS_LIST(ASYNCMESH_TEST_CODE)
#undef ASYNCMESH_TEST_CODE
  EXPECT_FALSE(code_text(static_cast<Code>(-999)).empty());
}

TEST(Result, HoldsAValueOrAStatus) {
  Result<std::unique_ptr<int>> good(std::make_unique<int>(3));
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good.value(), 3);
  EXPECT_EQ(good.code(), Code::kOk);
  const Result<std::unique_ptr<int>> bad(Status(Code::kSystem, "no"));
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.code(), Code::kSystem);
  EXPECT_EQ(bad.status().text(), "no");
}

}  // namespace
}  // namespace asyncmesh
