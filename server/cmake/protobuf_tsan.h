// Included before everything in builds with ThreadSanitizer. Protobuf's map fields have two members
// more there, which the distribution's libprotobuf, built without it, does not know: a
// google.protobuf.Struct made by the library would be read at wrong offsets. The standard library
// comes first, as it has its own use for the macro.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
