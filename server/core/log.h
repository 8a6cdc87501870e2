// One logfmt line per event on standard error: time, level, message. Thread-safe; no per-request
// lines at the default level.
#ifndef FAIRGATE_SERVER_CORE_LOG_H_
#define FAIRGATE_SERVER_CORE_LOG_H_

#include <string>

namespace fairgate {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void SetLogLevel(LogLevel level);
void Log(LogLevel level, const std::string& message);

inline void LogInfo(const std::string& message) { Log(LogLevel::kInfo, message); }
inline void LogWarning(const std::string& message) { Log(LogLevel::kWarning, message); }
inline void LogError(const std::string& message) { Log(LogLevel::kError, message); }

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_CORE_LOG_H_
