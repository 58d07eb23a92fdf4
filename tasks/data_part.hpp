#pragma once

#include <string>
#include <vector>

#include "orthornn/tasks/task.hpp"

/// The part by which a model file knows the data of its task: their checksum, as a text.
namespace orthornn::data_part {

inline constexpr const char* name = "data";

/// The checksum among the parts of a file, in that of this name. Throws ValueError where there is none, or
/// something else.
std::string checksum_in(const char* task, const std::vector<TaskPart>& parts, const char* part_name = name);

}  // namespace orthornn::data_part
