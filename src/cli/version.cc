// tenon version: versions, instruction sets, libraries.
#include <google/protobuf/stubs/common.h>
#include <openssl/crypto.h>

#include "base/version.h"
#include "cli/machine.h"
#include "hw/cpu.h"
#include "hw/isa.h"

namespace tenon::cli {
namespace {

Status Run(Context& context) {
  TENON_ASSIGN_OR_RETURN(const hw::IsaMask active, hw::ActiveIsa());
  const std::string protobuf = google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION);
  const std::string openssl = OpenSSL_version(OPENSSL_VERSION);
  context.Document({{"version", kVersionString},
                    {"isa", hw::IsaToString(active)},
                    {"detected_isa", hw::IsaToString(hw::DetectIsa())},
                    {"cpu", hw::CpuName()},
                    {"compiler", __VERSION__},
                    {"libraries", {{"protobuf", protobuf}, {"openssl", openssl}}}});
  context.Say(fmt::format("tenon {}\ncpu       {}\nisa       {}{}\ncompiler  {}\nlibraries protobuf {}, {}", kVersionString,
                          hw::CpuName(), hw::IsaToString(active),
                          active == hw::DetectIsa() ? "" : " (TENON_ISA; the CPU has " + hw::IsaToString(hw::DetectIsa()) + ")",
                          __VERSION__, protobuf, openssl));
  return Status::Ok();
}

}  // namespace

Command Make_version() {
  return {"version", "show versions, instruction sets, libraries", "tenon version --json",
          [](CLI::App&) { return [](Context& context) { return Run(context); }; }};
}

}  // namespace tenon::cli
