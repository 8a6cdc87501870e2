#include "server/core/log.h"

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

}  // namespace

void SetLogLevel(LogLevel level) { g_level = level; }

void Log(LogLevel level, const std::string& message) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  if (level < g_level.load()) return;
  const std::string line = absl::StrCat(
      "time=", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()),
      " level=", kNames[static_cast<int>(level)], " msg=\"", absl::Utf8SafeCEscape(message),
      "\"\n");
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::cerr << line;
}

}  // namespace fairgate
