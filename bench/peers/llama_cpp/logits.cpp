// Writes llama.cpp's fp32 logits of every position of one token sequence: logits MODEL IDS OUT THREADS [f32]
//   IDS: int32, little-endian.  OUT: fp32 [n_tokens, n_vocab].  f32: KV cache in F32 and flash attention off.
#include <llama.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char **argv) {
    if (argc < 5) {
        std::fprintf(stderr, "usage: logits MODEL IDS OUT THREADS [f32]\n");
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();

    std::vector<llama_token> ids;
    if (std::FILE *f = std::fopen(argv[2], "rb")) {
        int32_t id;
        while (std::fread(&id, sizeof id, 1, f) == 1) ids.push_back(id);
        std::fclose(f);
    }
    llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    std::FILE *out = std::fopen(argv[3], "wb");
    if (ids.empty() || !model || !out) {
        std::fprintf(stderr, "logits: cannot read %s or %s, or write %s\n", argv[1], argv[2], argv[3]);
        return 1;
    }
    const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(ids.size() + 8);
    params.n_batch = 512;
    params.n_threads = params.n_threads_batch = std::atoi(argv[4]);
    if (argc > 5 && std::string(argv[5]) == "f32") {
        params.type_k = params.type_v = GGML_TYPE_F32;
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    }
    llama_context *ctx = llama_init_from_model(model, params);
    llama_batch batch = llama_batch_init(512, 0, 1);
    for (size_t start = 0; start < ids.size(); start += 512) {
        const int n = static_cast<int>(std::min<size_t>(512, ids.size() - start));
        batch.n_tokens = n;
        for (int i = 0; i < n; i++) {
            batch.token[i] = ids[start + i];
            batch.pos[i] = static_cast<llama_pos>(start + i);
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = 1;
        }
        if (!ctx || llama_decode(ctx, batch) != 0) {
            std::fprintf(stderr, "logits: llama_decode failed\n");
            return 1;
        }
        for (int i = 0; i < n; i++) {
            std::fwrite(llama_get_logits_ith(ctx, i), sizeof(float), static_cast<size_t>(n_vocab), out);
        }
    }
    return std::fclose(out) == 0 ? 0 : 1;
}
