#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace asyncmesh {
namespace {

void collect(void* user, LogLevel level, std::string_view text) {
  static_cast<std::vector<std::string>*>(user)->push_back(std::string(log_level_name(level)) +
                                                          ": " + std::string(text));
}

TEST(Logger, IsSilentByDefault) {
  const Logger logger;
  EXPECT_FALSE(logger.enabled(LogLevel::kError));
  logger.write(LogLevel::kError, "nobody hears this");
}

TEST(Logger, PassesItsLevelAndWhatIsGraver) {
  std::vector<std::string> lines;
  const Logger logger(&collect, &lines, LogLevel::kWarning);
  logger.write(LogLevel::kError, "a");
  logger.write(LogLevel::kWarning, "b");
  logger.write(LogLevel::kInfo, "c");
  EXPECT_EQ(lines, (std::vector<std::string>{"error: a", "warning: b"}));
}

TEST(Logger, NeverWritesAtOff) {
  std::vector<std::string> lines;
  const Logger logger(&collect, &lines, LogLevel::kDebug);
  EXPECT_FALSE(logger.enabled(LogLevel::kOff));
  logger.write(LogLevel::kOff, "a");
  EXPECT_TRUE(lines.empty());
}

}  // namespace
}  // namespace asyncmesh
