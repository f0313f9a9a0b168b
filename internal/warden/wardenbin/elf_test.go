package wardenbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"
)

// fakeELF is the smallest file that check takes for a warden: a header, one
// program header, and a tag that tells it from others.
func fakeELF(goarch, tag string) []byte {
	return append(makeELF(elf.ET_EXEC, machines[goarch], elf.PT_LOAD), tag...)
}

func makeELF(typ elf.Type, machine elf.Machine, prog elf.ProgType) []byte {
	h := elf.Header64{
		Type: uint16(typ), Machine: uint16(machine), Version: 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	h.Ident[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = 1
	var b bytes.Buffer
	for _, v := range []any{h, elf.Prog64{Type: uint32(prog)}} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		data []byte
		want string // part of the error; empty: no error
	}{
		"static":      {makeELF(elf.ET_EXEC, elf.EM_X86_64, elf.PT_LOAD), ""},
		"static PIE":  {makeELF(elf.ET_DYN, elf.EM_X86_64, elf.PT_LOAD), ""},
		"dynamic":     {makeELF(elf.ET_DYN, elf.EM_X86_64, elf.PT_INTERP), "CGO_ENABLED=0"},
		"object":      {makeELF(elf.ET_REL, elf.EM_X86_64, elf.PT_LOAD), "ET_REL"},
		"other arch":  {makeELF(elf.ET_EXEC, elf.EM_AARCH64, elf.PT_LOAD), "EM_AARCH64"},
		"empty":       {nil, "not an ELF file"},
		"script":      {[]byte("#!/bin/sh\nexec true\n"), "not an ELF file"},
		"only a head": {makeELF(elf.ET_EXEC, elf.EM_X86_64, elf.PT_LOAD)[:70], "not an ELF file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := check(tt.data, "amd64")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("check = %v, want %q", err, tt.want)
			}
		})
	}
}

// The shell of a Debian machine is the real thing that must be refused.
func TestCheckRefusesDynamicShell(t *testing.T) {
	data, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := check(data, runtime.GOARCH); err == nil || !strings.Contains(err.Error(), "dynamically linked") {
		t.Errorf("check(/bin/sh) = %v", err)
	}
}
