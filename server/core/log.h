// One logfmt line per event on standard error: time, level, event, then what belongs to it.
// Thread-safe; no per-request lines at the default level.
#ifndef FAIRGATE_SERVER_CORE_LOG_H_
#define FAIRGATE_SERVER_CORE_LOG_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace fairgate {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Keys are snake_case with units last; values may hold anything.
using LogFields = std::initializer_list<std::pair<std::string_view, std::string>>;

void SetLogLevel(LogLevel level);
// `event` is snake_case and stays the same from version to version: alerts match on it.
void Log(LogLevel level, std::string_view event, LogFields fields = {});
// As Log writes it, without the time and the end of the line.
std::string FormatLogLine(LogLevel level, std::string_view event, LogFields fields);

inline void LogInfo(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kInfo, event, fields);
}
inline void LogWarning(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kWarning, event, fields);
}
inline void LogError(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kError, event, fields);
}

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_CORE_LOG_H_
