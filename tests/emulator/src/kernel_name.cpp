#include "kernel_name.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace orthornn::emulator {
namespace {

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? name.get() : symbol;
}

template <class T>
T read(const std::string& content, std::size_t offset) {
  T value = {};
  if (offset + sizeof(T) <= content.size()) std::memcpy(&value, content.data() + offset, sizeof(T));
  return value;
}

/// Of the function at that address of an ELF file. Kernels are often local to their file, and of local
/// functions only the symbol table knows, which the dynamic linker does not read.
std::string symbol_at(const std::string& file, std::uintptr_t address) {
  std::ifstream stream(file, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  const auto header = read<Elf64_Ehdr>(content, 0);
  for (unsigned s = 0; s < header.e_shnum; ++s) {
    const auto section = read<Elf64_Shdr>(content, header.e_shoff + s * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_SYMTAB) continue;
    const auto names = read<Elf64_Shdr>(content, header.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
    for (std::size_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(content, section.sh_offset + at);
      const std::size_t name = names.sh_offset + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value == address && name < content.size()) {
        return content.c_str() + name;
      }
    }
  }
  return {};
}

}  // namespace

std::string kernel_name(const void* kernel) {
  Dl_info info = {};
  if (dladdr(kernel, &info) == 0) return "unknown";
  if (info.dli_sname != nullptr && info.dli_saddr == kernel) return demangled(info.dli_sname);
  const auto address = reinterpret_cast<std::uintptr_t>(kernel),
             base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  // The program's own path may be relative to a directory since left.
  std::string symbol = symbol_at(info.dli_fname, address - base);
  if (symbol.empty()) symbol = symbol_at("/proc/self/exe", address - base);
  if (symbol.empty()) symbol = symbol_at("/proc/self/exe", address);  // linked to fixed addresses
  return symbol.empty() ? "unknown" : demangled(symbol.c_str());
}

}  // namespace orthornn::emulator
