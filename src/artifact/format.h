// The fixed header of a `.tenon` file and digests, shared by reader and writer.
#ifndef TENON_ARTIFACT_FORMAT_H_
#define TENON_ARTIFACT_FORMAT_H_

#include <openssl/sha.h>
#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace tenon::artifact {

inline constexpr std::array<char, 8> kMagic = {'T', 'E', 'N', 'O', 'N', 'A', 'R', 'T'};
inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kFlagExternalWeights = 1;
inline constexpr uint64_t kAlignment = 64;
inline constexpr uint64_t kChunkBytes = 1 << 18;
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 30;

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

/// XXH3 with 128 bits, canonical bytes. Checks the weights, a hundred times the rest of the file: SHA-256 without a signature
/// tells damage no better, and takes most of the time in which a model is opened.
using ChunkDigest = std::array<unsigned char, sizeof(XXH128_canonical_t)>;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t flags = 0;
  uint64_t metadata_offset = 0;
  uint64_t metadata_bytes = 0;
  uint64_t weights_offset = 0;      ///< in this file, or 0 in the external one
  uint64_t weights_bytes = 0;
  uint64_t file_bytes = 0;      ///< of this file as a whole
  Digest metadata_digest{};
  Digest header_digest{};           ///< of all bytes before it
};
static_assert(sizeof(Header) == 120);

inline Digest Sha256(const void* data, size_t size) {
  Digest d;
  SHA256(static_cast<const unsigned char*>(data), size, d.data());
  return d;
}

inline ChunkDigest DigestChunk(const void* data, size_t size) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
  ChunkDigest d;
  std::memcpy(d.data(), canonical.digest, d.size());
  return d;
}

inline Digest HeaderDigest(const Header& h) {
  return Sha256(&h, offsetof(Header, header_digest));
}

}  // namespace tenon::artifact

#endif  // TENON_ARTIFACT_FORMAT_H_
