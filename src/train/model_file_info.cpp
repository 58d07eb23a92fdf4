#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orthornn/core/random.hpp"
#include "orthornn/version.hpp"
#include "train/model_file_parts.hpp"

namespace orthornn {
namespace {

constexpr const char* permutation_name = "permutation";

/// Makes sure that the file is a model of a version that can be read.
void check_format(const Hdf5Reader& reader) {
  const std::filesystem::path& file = reader.file();
  if (!reader.has_attribute("/", "format") || reader.string_attribute("/", "format") != format_name) {
    throw FileError(
        fmt::format("{} is an HDF5 file but no orthornn model: its attribute 'format' is not '{}'",
                    file.string(), format_name));
  }
  const std::int64_t found = reader.int_attribute("/", "format_version");
  if (found > format_version) {
    throw FileError(fmt::format(
        "{} has model format version {}, this orthornn ({}) reads up to {}; a newer orthornn is needed",
        file.string(), found, version(), format_version));
  }
  if (found < 1) {
    throw FileError(fmt::format("{} has model format version {}; the first is 1", file.string(), found));
  }
}

/// Fills the bytes of the parts that the config names.
void read_parts(const Hdf5Reader& reader, std::vector<TaskPart>& parts) {
  std::size_t bytes_of_parts = 0;
  for (TaskPart& part : parts) {
    // Several names may stand for one dataset.
    const Shape shape = reader.shape("task/" + part.name);
    bytes_of_parts += static_cast<std::size_t>(shape.count());
    if (shape.rank() != 1 || bytes_of_parts > reader.file_size()) {
      refuse(reader, fmt::format("'task/{}' has the shape {}; expected [bytes], and in all parts at most the "
                                 "{} bytes of the file",
                                 part.name, to_string(shape), reader.file_size()));
    }
    const Tensor<std::uint8_t> bytes = reader.read<std::uint8_t>("task/" + part.name);
    part.bytes.assign(bytes.begin(), bytes.end());
  }
}

/// Fills what the group 'training' says, and the name of the optimizer.
void read_training(const Hdf5Reader& reader, ModelFileInfo& info) {
  if (info.task_config.empty() || info.batch == 0)
    refuse(reader, "it has a group 'training', but its config names no task or no training");
  info.steps = count_attribute(reader, "training", "step");
  if (reader.int_attribute("training", "seed") != static_cast<std::int64_t>(info.seed))
    refuse(reader, fmt::format("attribute 'seed' of 'training' is not {}, as the config has it", info.seed));
  if (reader.has_attribute("training", "best_metric")) {
    const BestResult best{reader.double_attribute("training", "best_metric"),
                          count_attribute(reader, "training", "best_step")};
    // A loss that is not finite is never the best, also where a file says so.
    if (std::isfinite(best.loss)) info.best = best;
  }
  info.optimizer = reader.string_attribute("optimizer", "name");
}

}  // namespace

std::int64_t count_attribute(const Hdf5Reader& reader, const std::string& object, const std::string& name) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  const std::int64_t count = reader.int_attribute(object, name);
  if (count < 0 || count > most) {
    refuse(reader, fmt::format("attribute '{}' of '{}' is {}; expected 0 to 2^53", name, object, count));
  }
  return count;
}

void check_names(const std::vector<TaskPart>& parts) {
  constexpr std::size_t most_parts = 16, longest_name = 64;
  if (parts.size() > most_parts)
    throw ValueError(fmt::format("the task has {} parts; expected at most {}", parts.size(), most_parts));
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    if (part->name.empty() || part->name.size() > longest_name || !std::ranges::all_of(part->name, letter) ||
        part->name == permutation_name) {
      throw ValueError(fmt::format(
          "a part of the task has a name of {} bytes; expected 1 to {} of a to z and _, and not {}",
          part->name.size(), longest_name, permutation_name));
    }
    if (std::ranges::count(parts.begin(), part, part->name, &TaskPart::name) > 0)
      throw ValueError(fmt::format("the part '{}' of the task is there twice", part->name));
  }
}

void check_info(const ModelFileInfo& info) {
  check_printable("library version", info.library_version);
  check_printable("task's name", info.task_name);
  if (!info.permutation.empty() &&
      (info.permutation.shape().rank() != 1 || !is_permutation(info.permutation))) {
    throw ValueError(fmt::format("'task/permutation' of shape {} is not a permutation of 0 .. T - 1",
                                 to_string(info.permutation.shape())));
  }
  // A task of a program's own is known to that program alone.
  const std::vector<std::string> known = task_names();
  if (info.task_config.empty() || std::find(known.begin(), known.end(), info.task_name) == known.end())
    return;
  const std::string named = text_member(parse_json(info.task_config), "task");
  if (named != info.task_name) {
    throw ValueError(
        fmt::format("its task is \"{}\", the attribute 'task' says '{}'", named, info.task_name));
  }
  const auto task = make_task(info.task_config, {.batch = std::max<Index>(info.batch, 1),
                                                 .seed = info.seed,
                                                 .input_order = info.permutation,
                                                 .parts = info.parts});
  // Drawn anew it could be another than the one the model was trained with.
  if (!task->input_order().empty() && info.permutation.empty()) {
    throw ValueError(
        "there is no dataset 'task/permutation'; expected the order in which this model reads its input");
  }
}

ModelFileInfo info_of(const Hdf5Reader& reader) {
  check_format(reader);
  ModelFileInfo info;
  info.format_version = reader.int_attribute("/", "format_version");
  info.library_version = reader.string_attribute("/", "library_version");
  info.task_name = reader.string_attribute("/", "task");
  try {
    read_config(reader.string_attribute("/", "config"), info.format_version, info);
    check_names(info.parts);
  } catch (const UnknownKind& error) {
    refuse(reader, fmt::format("{}; a program registers kinds of its own, by register_layer and "
                               "register_transition, before it reads files that have them",
                               error.what()));
  } catch (const ValueError& error) {
    refuse(reader, fmt::format("the attribute 'config' is not what orthornn writes: {}", error.what()));
  }
  if (reader.has("task/permutation")) info.permutation = reader.read<std::int32_t>("task/permutation");
  read_parts(reader, info.parts);
  if (reader.has("training")) read_training(reader, info);
  try {
    check_printable("optimizer's name", info.optimizer);
    check_info(info);
  } catch (const ValueError& error) {
    refuse(reader, error.what());
  }
  return info;
}

ModelFileInfo read_model_info(const std::filesystem::path& file) { return info_of(Hdf5Reader(file)); }

}  // namespace orthornn
