// The keys of a target; their order is the contract in server/lua/README.md.
#ifndef FAIRGATE_SERVER_STORE_KEYSPACE_H_
#define FAIRGATE_SERVER_STORE_KEYSPACE_H_

#include <string>
#include <string_view>
#include <vector>

namespace fairgate {

inline constexpr char kTargetsKey[] = "fg:targets";  // set of the names of all targets
inline constexpr char kGatesKey[] = "fg:gates";      // zset: gate id by the time it is dead, in ms

// Percent-encodes whatever could end the hash tag or garble a log: braces, '%', space, control
// bytes and everything beyond ASCII. Different names stay different.
std::string EscapeTarget(std::string_view target);

// The nine keys of a target, all under one hash tag.
std::vector<std::string> TargetKeys(std::string_view target);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_STORE_KEYSPACE_H_
