package images

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
)

// A Package is one of Debian's that an image has.
type Package struct {
	Name, Version, Arch string // as dpkg has them; Arch may be "all"
	Source              string // what it was made of, if that has another name or version
	SHA256              string // of its file, in hexadecimal; empty if the archive does not say
	License             string // an SPDX expression; empty if dpkg does not tell
}

// The forms that the Debian policy gives them. What is in a file that a person
// gave is written into one of apt's.
var (
	packageName    = lazy.Regexp(`^[a-z0-9][a-z0-9+.-]+$`)
	packageVersion = lazy.Regexp(`^[0-9][A-Za-z0-9.+~:-]*$`)
)

func (p Package) key() string { return p.Name + ":" + p.Arch + "=" + p.Version }

// stanzas calls each with what it needs to know of every stanza of a list of
// packages: of dpkg's, or of an archive's. The map is valid until it returns.
func stanzas(r io.Reader, each func(map[string]string)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	stanza := map[string]string{}
	flush := func() {
		if stanza["Package"] != "" {
			each(stanza)
		}
		clear(stanza)
	}
	for lines.Scan() {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			flush()
			continue
		}
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		switch string(key) {
		case "Package", "Version", "Architecture", "Source", "Status", "SHA256":
			stanza[string(key)] = string(bytes.TrimSpace(value))
		}
	}
	flush()
	return lines.Err()
}

// installedPackages are those of a root file system, by name, with what the
// lists of the archives and the packages' copyright files say of them.
func installedPackages(root fs.FS) ([]Package, error) {
	status, err := root.Open("var/lib/dpkg/status")
	if err != nil {
		return nil, err
	}
	defer status.Close() // it was only read
	var list []Package
	err = stanzas(status, func(s map[string]string) {
		if strings.HasSuffix(s["Status"], " installed") {
			list = append(list, Package{Name: s["Package"], Version: s["Version"], Arch: s["Architecture"], Source: s["Source"]})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the list of packages: %w", err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no package is installed")
	}
	sums, err := archiveSums(root)
	if err != nil {
		return nil, err
	}
	for i, p := range list {
		list[i].SHA256 = sums[p.key()]
		text, err := fs.ReadFile(root, "usr/share/doc/"+p.Name+"/copyright")
		if err == nil {
			list[i].License = licenseOf(text)
		}
	}
	slices.SortFunc(list, func(a, b Package) int { return strings.Compare(a.key(), b.key()) })
	return list, nil
}

// archiveSums are the SHA-256 of all packages that the archives have.
func archiveSums(root fs.FS) (map[string]string, error) {
	lists, err := fs.Glob(root, "var/lib/apt/lists/*_Packages")
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, name := range lists {
		f, err := root.Open(name)
		if err != nil {
			return nil, err
		}
		err = stanzas(f, func(s map[string]string) {
			sums[Package{Name: s["Package"], Version: s["Version"], Arch: s["Architecture"]}.key()] = s["SHA256"]
		})
		f.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return sums, nil
}

// preferences has apt choose pins, as apt_preferences(5) has it.
func preferences(pins []Package) []byte {
	var b bytes.Buffer
	for _, p := range pins {
		fmt.Fprintf(&b, "Package: %s\nPin: version %s\nPin-Priority: 1001\n\n", p.Name, p.Version)
	}
	return b.Bytes()
}

// checkPins makes sure that what was installed is what was asked for.
func checkPins(b building, installed []Package) error {
	if b.pins == nil {
		return nil
	}
	differences := pinDifferences(b.pins, installed)
	if len(differences) == 0 {
		return nil
	}
	const shown = 5
	more := ""
	if n := len(differences) - shown; n > 0 {
		differences, more = differences[:shown], fmt.Sprintf(" and %d more", n)
	}
	return corral.Errorf(corral.ErrUnavailable, "have apt of this machine use an archive that has these versions, such as one of snapshots of Debian's; or build with the newest packages",
		"cannot build image %s of the packages that were asked for: %s%s", b.recipe.name, strings.Join(differences, "; "), more)
}

func pinDifferences(want, got []Package) []string {
	var out []string
	have := map[string]Package{}
	for _, p := range got {
		have[p.Name+":"+p.Arch] = p
	}
	for _, w := range want {
		g, ok := have[w.Name+":"+w.Arch]
		delete(have, w.Name+":"+w.Arch)
		switch {
		case !ok:
			out = append(out, "there is no "+w.Name)
		case g.Version != w.Version:
			out = append(out, fmt.Sprintf("%s is %s, not %s", w.Name, g.Version, w.Version))
		case w.SHA256 != "" && g.SHA256 != w.SHA256:
			out = append(out, fmt.Sprintf("the file of %s %s is another", w.Name, w.Version))
		}
	}
	for _, g := range got {
		if _, extra := have[g.Name+":"+g.Arch]; extra {
			out = append(out, g.Name+" was not asked for")
		}
	}
	return out
}
