#include "server/core/log.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <mutex>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace fairgate {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::mutex g_mutex;  // keeps lines whole

// Bare where no reader can be misled, else quoted with C escapes.
std::string Value(const std::string& value) {
  const bool bare = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
  return bare ? value : absl::StrCat("\"", absl::Utf8SafeCEscape(value), "\"");
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level = level; }

std::string FormatLogLine(LogLevel level, std::string_view event, LogFields fields) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  std::string line =
      absl::StrCat("level=", kNames[static_cast<int>(level)], " event=", std::string(event));
  for (const auto& [key, value] : fields) {
    absl::StrAppend(&line, " ", std::string(key), "=", Value(value));
  }
  return line;
}

void Log(LogLevel level, std::string_view event, LogFields fields) {
  if (level < g_level.load()) return;
  const std::string line = absl::StrCat(
      "time=", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()), " ",
      FormatLogLine(level, event, fields), "\n");
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::cerr << line;
}

}  // namespace fairgate
