#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "train/model_file_parts.hpp"

namespace orthornn {

void expect_parameters(const Hdf5Reader& reader, const std::string& prefix,
                       const ParameterSet<float>& layout) {
  // Two names may stand for one dataset, so each may fit where all do not.
  const std::size_t bytes = Shape{layout.count()}.bytes(sizeof(float));
  if (bytes > reader.file_size()) {
    throw FileError(fmt::format(
        "{}: its config describes parameters of {} bytes in '{}'; expected fewer than the file's {}",
        reader.file().string(), bytes, prefix, reader.file_size()));
  }
  for (const Parameter& parameter : layout.list()) {
    reader.expect<float>(prefix + "/" + parameter.name, parameter.shape);
  }
}

void expect_only(const Hdf5Reader& reader, const std::string& prefix, const ParameterSet<float>& layout) {
  expect_parameters(reader, prefix, layout);
  std::map<std::string, std::set<std::string>> groups;
  for (const Parameter& parameter : layout.list()) {
    std::string path = prefix + "/" + parameter.name;
    while (path != prefix) {
      const std::size_t slash = path.rfind('/');
      groups[path.substr(0, slash)].insert(path.substr(slash + 1));
      path.resize(slash);
    }
  }
  for (const auto& [group, names] : groups) {
    for (const std::string& name : reader.names(group)) {
      if (names.contains(name)) continue;
      throw FileError(
          fmt::format("{}: it has '{}/{}', of which this model knows nothing; expected the "
                      "parameters of this model alone",
                      reader.file().string(), group, name));
    }
  }
}

void read_parameters(const Hdf5Reader& reader, const std::string& prefix,
                     const ParameterSet<float>& parameters, TensorView<float> flat) {
  for (const Parameter& parameter : parameters.list()) {
    const std::string path = prefix + "/" + parameter.name;
    const TensorView<float> window(flat.data() + parameter.offset, parameter.shape, flat.device());
    reader.read_into<float>(path, window);
    for (const float x : window) {
      if (std::isfinite(x)) continue;
      throw FileError(
          fmt::format("{}: dataset '{}' holds a value that is not finite", reader.file().string(), path));
    }
  }
}

}  // namespace orthornn
