#pragma once

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <string>

#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"

namespace orthornn::testing {

namespace detail {

template <class T>
std::string bytes_of(const Tensor<T>& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.data()),
                     static_cast<std::size_t>(tensor.size()) * sizeof(T));
}

inline void add_datasets(const Hdf5Reader& reader, const std::string& group,
                         std::map<std::string, std::string>& found) {
  for (const std::string& name : reader.names(group)) {
    const std::string path = group + "/" + name;
    Shape shape;
    try {
      shape = reader.shape(path);
    } catch (const FileError&) {  // a group
      add_datasets(reader, path, found);
      continue;
    }
    found[path] = to_string(shape) + (reader.is_integer(path) ? bytes_of(reader.read<std::int64_t>(path))
                                                              : bytes_of(reader.read<float>(path)));
  }
}

}  // namespace detail

/// Everything a training goes on from, by its path: the bytes of all parameters and moments, the counters.
inline std::map<std::string, std::string> training_content(const std::filesystem::path& model) {
  const Hdf5Reader reader(model);
  std::map<std::string, std::string> found;
  for (const char* group : {"parameters", "optimizer", "training", "task"}) {
    detail::add_datasets(reader, group, found);
  }
  found["optimizer.name"] = reader.string_attribute("optimizer", "name");
  found["optimizer.steps"] = std::to_string(reader.int_attribute("optimizer", "steps"));
  found["training.step"] = std::to_string(reader.int_attribute("training", "step"));
  found["training.seed"] = std::to_string(reader.int_attribute("training", "seed"));
  return found;
}

/// The parameters alone.
inline std::map<std::string, std::string> parameters_in(const std::filesystem::path& model) {
  const Hdf5Reader reader(model);
  std::map<std::string, std::string> found;
  detail::add_datasets(reader, "parameters", found);
  return found;
}

/// metrics.csv without the seconds.
inline std::string metrics_without_time(const std::filesystem::path& run_folder) {
  std::ifstream stream(run_folder / "metrics.csv");
  std::string text;
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find(',');
    text += line.substr(0, first) + line.substr(line.find(',', first + 1)) + "\n";
  }
  return text;
}

inline std::int64_t steps_in(const std::filesystem::path& model) {
  return Hdf5Reader(model).int_attribute("training", "step");
}

}  // namespace orthornn::testing
