// What the scripts take and answer, as bytes (server/lua/README.md). Pure.
//
// Decoders answer kInternal for anything malformed, kNotFound for no_target, kInvalidArgument
// ("field: message") for invalid.
#ifndef FAIRGATE_SERVER_STORE_SCRIPT_CODEC_H_
#define FAIRGATE_SERVER_STORE_SCRIPT_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "fairgate/v1/admin.pb.h"
#include "fairgate/v1/policy.pb.h"
#include "server/core/decision.h"
#include "server/core/policy.h"
#include "server/core/request.h"

namespace fairgate {

// Microseconds since the epoch, instead of the store's TIME; tests only.
using TestClock = std::optional<int64_t>;

std::string EncodeAdmit(const AdmitQuery& query, TestClock clock);
std::string EncodeRelease(const ReleaseQuery& query, TestClock clock);
std::string EncodeInspect(uint32_t flows_max, TestClock clock);
// `source`: the serialized TargetPolicy, kept for reading back.
std::string EncodeConfigure(const CompiledPolicy& policy, const std::string& source,
                            uint64_t expected_version, TestClock clock);
std::string EncodeDelete(uint64_t expected_version, TestClock clock);

// Without the ids, which the asker knows.
absl::StatusOr<Decision> DecodeAdmit(std::string_view bytes);
absl::StatusOr<ReleaseReport> DecodeRelease(std::string_view bytes);
// kAborted: the stored version is another one.
absl::StatusOr<uint64_t> DecodeConfigure(std::string_view bytes);
absl::StatusOr<v1::InspectTargetResponse> DecodeInspect(std::string_view bytes);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_STORE_SCRIPT_CODEC_H_
