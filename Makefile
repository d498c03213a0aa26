# SPDX-License-Identifier: Apache-2.0
# Warptune. `make` builds, `make demo` runs the main job, `make test` installs what is missing and runs every test.
# SAN=1 builds the same targets with the address and undefined-behaviour sanitizers, in a folder of their own.

SAN ?= 0
ifeq ($(SAN),1)
  BUILD := build/san
  SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
  OPT := -O1
else
  BUILD := build/opt
  SANFLAGS :=
  OPT := -O2
endif

CC := gcc
# V=1 shows the commands.
V ?= 0
Q := $(if $(filter 0,$(V)),@)
say = $(if $(filter 0,$(V)),@echo '  $(1)')
VERSION := 0.1.0
CPPFLAGS := -DWARPTUNE_VERSION='"$(VERSION)"' -I. -I$(BUILD)/gen -Ibuild/gen -D_GNU_SOURCE -MMD -MP
# Where NVIDIA's headers are, the tests hold our own declarations against them.
CUDA_HEADERS := $(if $(wildcard /usr/local/cuda/include/cuda.h),-isystem /usr/local/cuda/include)
WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla -Wno-missing-field-initializers
CFLAGS := -std=c17 $(OPT) -g -fPIC -pthread $(WARN) $(SANFLAGS)
LDFLAGS := -pthread $(SANFLAGS) -Wl,--as-needed
PKGS := libpq json-c libmicrohttpd gnutls libcrypto libprotobuf-c libcurl libseccomp
CPPFLAGS += -include service/base/banned.h $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDLIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lxgboost -ldl -lm

# Everything but main.c and the module runtime goes into one archive; programs and tests link what they use of it.
DIRS := service/base service/model service/store gpu/device gpu/template gpu/measure gpu/module scheduler scheduler/search api service
SRCS := $(filter-out service/main.c,$(wildcard $(addsuffix /*.c,$(DIRS))))
OBJS := $(SRCS:%.c=$(BUILD)/%.o) $(BUILD)/gen/onnx.pb-c.o $(BUILD)/gen/migrations.o $(BUILD)/gen/openapi_pieces.o
LIB := $(BUILD)/libwarptune.a
PROGRAM := $(BUILD)/warptune
RUNTIME := $(BUILD)/warptune_module.so
RUNTIME_SRCS := $(wildcard gpu/module/runtime/*.c) gpu/device/cuda_api.c gpu/device/pool.c $(wildcard gpu/device/cudnn_*.c)

.PHONY: all clean
all: $(PROGRAM)

$(PROGRAM): $(BUILD)/service/main.o $(LIB)
	$(call say,LD $@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIB): $(OBJS)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/%.o: %.c | headers
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# Generated: the ONNX reader's messages, and the migrations as C text.
.PHONY: headers
headers: build/gen/onnx.pb-c.h
build/gen/onnx.pb-c.h build/gen/onnx.pb-c.c &: service/model/onnx.proto
	@mkdir -p build/gen
	protoc-c --proto_path=service/model --c_out=build/gen service/model/onnx.proto
$(BUILD)/gen/onnx.pb-c.o: build/gen/onnx.pb-c.c
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CPPFLAGS) -std=c17 $(OPT) -g -fPIC $(SANFLAGS) -c -o $@ $<
build/gen/migrations.c: $(wildcard migrations/*.sql) migrations/embed.sh
	@mkdir -p build/gen
	sh migrations/embed.sh migrations > $@.tmp && mv $@.tmp $@
$(BUILD)/gen/migrations.o: build/gen/migrations.c
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

build/gen/openapi_pieces.c: $(wildcard api/openapi/*.json) api/openapi/embed.sh
	@mkdir -p build/gen
	sh api/openapi/embed.sh api/openapi > $@.tmp && mv $@.tmp $@
$(BUILD)/gen/openapi_pieces.o: build/gen/openapi_pieces.c
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# The runtime that every module starts with: a shared object that needs only libc and libdl; embedded in the program.
$(RUNTIME): $(RUNTIME_SRCS) $(wildcard gpu/module/runtime/*.h gpu/device/*.h)
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) -I. -D_GNU_SOURCE -std=c17 -O2 -fPIC -pthread -fvisibility=hidden $(WARN) -shared -o $@ $(RUNTIME_SRCS) -ldl -lm
# Files that C sources embed with .incbin, so that a change of one rebuilds its reader.
$(BUILD)/gpu/module/module_write.o: $(RUNTIME)
$(BUILD)/gpu/module/module_write.o: CPPFLAGS += -DMODULE_RUNTIME_PATH='"$(RUNTIME)"'
TEMPLATE_SOURCES := $(wildcard gpu/template/*.cu gpu/template/*.cpu.c.in)
$(patsubst %.c,$(BUILD)/%.o,$(wildcard gpu/template/*.c)): $(TEMPLATE_SOURCES)
$(BUILD)/api/dashboard.o: $(wildcard api/dashboard/*)

# Unit tests: one Criterion program a file. `make unit T=json` builds and runs tests/unit/test_json.c alone.
TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(sort $(wildcard tests/unit/test_*.c)))
$(BUILD)/tests/unit/%: tests/unit/%.c $(LIB) | headers
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(CPPFLAGS) $(CUDA_HEADERS) $(CFLAGS) -o $@ $< $(LIB) $(LDFLAGS) $(LDLIBS) -lcriterion
.PHONY: unit
unit: $(if $(T),$(BUILD)/tests/unit/test_$(T),$(TESTS)) $(PROGRAM)
	@WARPTUNE_PROGRAM=$(abspath $(PROGRAM)) sh tests/run_all.sh $(filter-out $(PROGRAM),$^)

# Everything that must hold: style, unit tests with the sanitizers, the product over HTTP, a short run of the fuzzers.
.PHONY: test
test:
	sh docker/packages.sh test
	$(MAKE) check
.PHONY: check
check: lint all
	$(MAKE) SAN=1 unit
	$(MAKE) http fuzz-short

# The program itself, over real HTTP with curl, with real PostgreSQL.
.PHONY: http
http: $(PROGRAM)
	@sh tests/run_all.sh --env WARPTUNE_PROGRAM=$(abspath $(PROGRAM)) $(sort $(wildcard tests/http/test_*.sh))

# Whatever can be killed is killed, at random, for ten minutes.
.PHONY: chaos
chaos: $(PROGRAM)
	WARPTUNE_PROGRAM=$(abspath $(PROGRAM)) WARPTUNE_CHAOS_SECONDS=$${WARPTUNE_CHAOS_SECONDS:-600} sh tests/http/test_chaos.sh

# What needs a GPU: plain programs, so that a host without Criterion runs them (carry them with the bundle).
GPU_PROGRAMS := $(patsubst tests/gpu/%.c,$(BUILD)/tests/gpu/%,$(wildcard tests/gpu/*.c))
GPU_TESTS := $(filter $(BUILD)/tests/gpu/test_%,$(GPU_PROGRAMS))
$(BUILD)/tests/gpu/%: tests/gpu/%.c $(LIB) | headers
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(LIB) $(LDFLAGS) $(LDLIBS)
.PHONY: gpu-tests test-gpu
gpu-tests: $(GPU_PROGRAMS)
test-gpu: $(GPU_TESTS)
	@sh tests/run_all.sh $(GPU_TESTS)

# Style. clang-tidy reads each source once more with its own flags.
C_FILES := $(shell find service gpu scheduler api tests -name '*.[ch]')
TIDY_STAMPS := $(SRCS:%.c=build/tidy/%.ok) build/tidy/service/main.ok
.PHONY: lint
lint: $(TIDY_STAMPS)
	clang-format --dry-run -Werror $(C_FILES)
	sh tests/lint/layers.sh
build/tidy/%.ok: %.c .clang-tidy | headers
	@mkdir -p $(@D)
	$(call say,TIDY $<)
	$(Q)clang-tidy --quiet $< -- $(CPPFLAGS) -std=c17 2>/dev/null && touch $@

# Fuzz targets (clang's libFuzzer), each with its corpus; `make fuzz F=json SECONDS_EACH=600` runs one for long.
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,build/fuzz/fuzz_%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
SECONDS_EACH ?= 10
FUZZ_SRCS := $(wildcard service/base/*.c service/model/*.c gpu/template/*.c) gpu/device/target.c gpu/device/cudnn_conv.c build/gen/onnx.pb-c.c
build/fuzz/obj/%.o: %.c | headers
	@mkdir -p $(@D)
	$(call say,FUZZ CC $<)
	$(Q)clang $(CPPFLAGS) -std=c17 -O1 -g -fsanitize=fuzzer-no-link,address,undefined -c -o $@ $<
build/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(FUZZ_SRCS:%.c=build/fuzz/obj/%.o)
	$(call say,FUZZ LD $@)
	$(Q)clang $(CPPFLAGS) -std=c17 -O1 -g -fsanitize=fuzzer,address,undefined -o $@ $^ $(LDLIBS) -lpthread
.SECONDARY: $(FUZZ_SRCS:%.c=build/fuzz/obj/%.o)
.PHONY: fuzz fuzz-short
fuzz: $(if $(F),build/fuzz/fuzz_$(F),$(FUZZ))
	@for f in $^; do name=$${f##*/fuzz_}; mkdir -p build/fuzz/work/$$name; \
	  $$f -max_total_time=$(SECONDS_EACH) -rss_limit_mb=4096 -print_final_stats=1 build/fuzz/work/$$name tests/fuzz/corpus/$$name \
	    >build/fuzz/$$name.log 2>&1 || { tail -n 40 build/fuzz/$$name.log; exit 1; }; \
	  echo "fuzz $$name: $$(grep -o 'number_of_executed_units: *[0-9]*' build/fuzz/$$name.log)"; done
fuzz-short: fuzz

# The main job, start to end, and the server to play with.
.PHONY: demo run bundle bench bench-gpu
demo:
	sh docker/packages.sh build
	$(MAKE) all
	sh tests/demo.sh $(abspath $(PROGRAM))
run:
	sh docker/packages.sh build
	$(MAKE) all
	$(PROGRAM) serve --data-dir $(abspath build/data)
# One relocatable archive for GPU hosts without network: the program, its libraries, PostgreSQL.
bundle: $(PROGRAM)
	sh docker/bundle.sh $(PROGRAM) build/warptune-bundle.tar.xz
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(wildcard tests/bench/*.c))
$(BUILD)/tests/bench/%: tests/bench/%.c $(LIB) | headers
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(LIB) $(LDFLAGS) $(LDLIBS)
# `make bench ONLY="get streams"` runs some of them.
bench: $(PROGRAM) $(BENCHES)
	sh tests/bench/run.sh $(abspath $(PROGRAM)) $(ONLY)
bench-gpu: $(PROGRAM) $(GPU_PROGRAMS)
	sh tests/bench/gpu.sh $(abspath $(PROGRAM))

clean:
	rm -rf build

-include $(OBJS:.o=.d) $(BUILD)/service/main.d $(TESTS:=.d) $(wildcard build/fuzz/obj/*.d build/fuzz/obj/*/*.d build/fuzz/obj/*/*/*.d build/fuzz/*.d)
