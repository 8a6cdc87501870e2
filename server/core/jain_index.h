#ifndef FAIRGATE_SERVER_CORE_JAIN_INDEX_H_
#define FAIRGATE_SERVER_CORE_JAIN_INDEX_H_

#include <vector>

namespace fairgate {

// Jain's index (Σx)²/(n·Σx²): 1 when all are equal, 1/n when one has everything. 1 for no or only
// zero values, which nobody can call unfair.
inline double JainIndex(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_CORE_JAIN_INDEX_H_
