package wardenbin

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// machines are the architectures that a warden is built for.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64,
	"arm64": elf.EM_AARCH64,
}

func supported() string {
	return strings.Join(slices.Sorted(maps.Keys(machines)), ", ")
}

// check reports why data cannot be a warden for goarch. A warden runs in
// images that hold no loader and no libraries, so it must be static; finding
// that out here gives a better message than "no such file or directory" from
// execve inside a container.
func check(data []byte, goarch string) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("not an ELF file: %w", err)
	}
	switch {
	case f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN:
		return fmt.Errorf("not an executable but %v", f.Type)
	case f.Machine != machines[goarch]:
		return fmt.Errorf("built for %v", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("dynamically linked (build it with CGO_ENABLED=0)")
		}
	}
	return nil
}
