/* AES-256-CBC by intel-ipsec-mb, whose interface is a table of functions in a struct that only its header knows.
 * Built by src/peers/ipsec_mb.rs. Each call takes as many data units as the library wants at once. */

#include <intel-ipsec-mb.h>
#include <stdlib.h>
#include <string.h>

struct peer {
    IMB_MGR *manager;
    int encrypt;
    _Alignas(16) uint32_t enc[15 * 4], dec[15 * 4], salt_enc[15 * 4], salt_dec[15 * 4];
    IMB_JOB jobs[IMB_MAX_BURST_SIZE];
};

const char *peer_version(void) { return imb_get_version_str(); }

/* A key and the one under which numbers become IVs, 32 bytes each; 0 without memory or on a CPU that is too old. */
struct peer *peer_new(const uint8_t *key, const uint8_t *salt, int encrypt) {
    struct peer *peer = aligned_alloc(64, (sizeof *peer + 63) / 64 * 64);
    if (!peer)
        return 0;
    memset(peer, 0, sizeof *peer);
    peer->encrypt = encrypt;
    peer->manager = alloc_mb_mgr(0);
    if (!peer->manager) {
        free(peer);
        return 0;
    }
    init_mb_mgr_auto(peer->manager, NULL);
    if (imb_get_errno(peer->manager)) {
        free_mb_mgr(peer->manager);
        free(peer);
        return 0;
    }
    IMB_AES_KEYEXP_256(peer->manager, key, peer->enc, peer->dec);
    IMB_AES_KEYEXP_256(peer->manager, salt, peer->salt_enc, peer->salt_dec);
    return peer;
}

void peer_free(struct peer *peer) {
    free_mb_mgr(peer->manager);
    free(peer);
}

/* `count` cipher blocks in place, ECB, under the salt's key. Returns 0 if all went well. */
int peer_ivs(struct peer *peer, uint8_t *ivs, size_t count) {
    IMB_JOB *job = IMB_GET_NEXT_JOB(peer->manager);
    memset(job, 0, sizeof *job);
    job->cipher_mode = IMB_CIPHER_ECB;
    job->cipher_direction = IMB_DIR_ENCRYPT;
    job->chain_order = IMB_ORDER_CIPHER_HASH;
    job->hash_alg = IMB_AUTH_NULL;
    job->key_len_in_bytes = IMB_KEY_256_BYTES;
    job->enc_keys = peer->salt_enc;
    job->dec_keys = peer->salt_dec;
    job->src = job->dst = ivs;
    job->msg_len_to_cipher_in_bytes = count * 16;
    job = IMB_SUBMIT_JOB(peer->manager);
    if (!job)
        job = IMB_FLUSH_JOB(peer->manager);
    return !job || job->status != IMB_STATUS_COMPLETED;
}

/* `count` data units of `unit` bytes in place, CBC, each with its IV. Returns 0 if all went well. */
int peer_units(struct peer *peer, uint8_t *data, const uint8_t *ivs, size_t unit, size_t count) {
    while (count) {
        uint32_t now = count < IMB_MAX_BURST_SIZE ? count : IMB_MAX_BURST_SIZE;
        for (uint32_t i = 0; i < now; i++, data += unit, ivs += 16) {
            IMB_JOB *job = &peer->jobs[i];
            job->enc_keys = peer->enc;
            job->dec_keys = peer->dec;
            job->key_len_in_bytes = IMB_KEY_256_BYTES;
            job->src = job->dst = data;
            job->iv = ivs;
            job->iv_len_in_bytes = 16;
            job->msg_len_to_cipher_in_bytes = unit;
            job->cipher_start_src_offset_in_bytes = 0;
        }
        if (IMB_SUBMIT_CIPHER_BURST_NOCHECK(peer->manager, peer->jobs, now, IMB_CIPHER_CBC,
                                            peer->encrypt ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT,
                                            IMB_KEY_256_BYTES) != now)
            return 1;
        count -= now;
    }
    return 0;
}
