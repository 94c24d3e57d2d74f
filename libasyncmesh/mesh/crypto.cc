#include "mesh/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <utility>

#include "base/unique_handle.h"

namespace asyncmesh::mesh {

namespace {

using MacHandle = UniqueHandle<EVP_MAC*, &EVP_MAC_free>;
using MacContextHandle = UniqueHandle<EVP_MAC_CTX*, &EVP_MAC_CTX_free>;
using DigestContextHandle = UniqueHandle<EVP_MD_CTX*, &EVP_MD_CTX_free>;

const unsigned char* raw(ByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

bool fill_random(std::span<std::byte> out) {
  return RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) ==
         1;
}

bool sha256(std::initializer_list<ByteSpan> parts, Digest* digest_out) {
  const DigestContextHandle context(EVP_MD_CTX_new());
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) return false;
  for (const ByteSpan part : parts) {
    if (EVP_DigestUpdate(context.get(), part.data(), part.size()) != 1) return false;
  }
  Digest digest;
  if (EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr) !=
      1) {
    return false;
  }
  *digest_out = digest;
  return true;
}

bool equal_in_constant_time(ByteSpan a, ByteSpan b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

struct Hmac::Context {
  MacContextHandle mac;
};

Hmac::Hmac() = default;
Hmac::~Hmac() = default;
Hmac::Hmac(Hmac&&) noexcept = default;
Hmac& Hmac::operator=(Hmac&&) noexcept = default;

bool Hmac::set_key(const Digest& key) {
  const MacHandle algorithm(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  if (!algorithm) return false;
  auto context = std::make_unique<Context>();
  context->mac = MacContextHandle(EVP_MAC_CTX_new(algorithm.get()));
  if (!context->mac) return false;
  char name[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                                   OSSL_PARAM_construct_end()};
  if (EVP_MAC_init(context->mac.get(), raw(key), key.size(), parameters) != 1) return false;
  context_ = std::move(context);
  return true;
}

bool Hmac::compute(std::initializer_list<ByteSpan> parts, Digest* digest_out) {
  if (!context_) return false;
  EVP_MAC_CTX* const mac = context_->mac.get();
  // Without a key: starts over with the one that the context holds.
  if (EVP_MAC_init(mac, nullptr, 0, nullptr) != 1) return false;
  for (const ByteSpan part : parts) {
    if (!part.empty() && EVP_MAC_update(mac, raw(part), part.size()) != 1) return false;
  }
  Digest digest;
  size_t written = 0;
  if (EVP_MAC_final(mac, reinterpret_cast<unsigned char*>(digest.data()), &written,
                    digest.size()) != 1 ||
      written != digest.size()) {
    return false;
  }
  *digest_out = digest;
  return true;
}

bool key_from_secret(std::string_view secret, Digest* key_out) {
  return sha256({bytes_of("asyncmesh control key 1"), bytes_of(secret)}, key_out);
}

}  // namespace asyncmesh::mesh
