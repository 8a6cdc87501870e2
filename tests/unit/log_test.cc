#include "server/core/log.h"

#include <gtest/gtest.h>

namespace fairgate {
namespace {

TEST(LogTest, OneLineWhateverTheValues) {
  EXPECT_EQ(FormatLogLine(LogLevel::kInfo, "store_back", {}), "level=info event=store_back");
  EXPECT_EQ(FormatLogLine(LogLevel::kWarning, "policy_differs",
                          {{"target", "openai-prod"},
                           {"file", "a file.yaml"},
                           {"error", "line\nbreak \"quoted\" = \\"},
                           {"empty", ""},
                           {"name", "Zürich"}}),
            "level=warning event=policy_differs target=openai-prod file=\"a file.yaml\" "
            "error=\"line\\nbreak \\\"quoted\\\" = \\\\\" empty=\"\" name=\"Zürich\"");
}

// Who names a target must not be able to write a line or a field of the log.
TEST(LogTest, NoValueBecomesAField) {
  const std::string line =
      FormatLogLine(LogLevel::kError, "x", {{"target", "a level=info\r\ntime=0"}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line, "level=error event=x target=\"a level=info\\r\\ntime=0\"");
}

}  // namespace
}  // namespace fairgate
