package images

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	spdxjson "github.com/spdx/tools-golang/json"

	"github.com/corral-exec/corral"
)

// debianFiles is what of a root file system says which packages there are.
func debianFiles(changes fstest.MapFS) fs.FS {
	root := fstest.MapFS{
		"var/lib/dpkg/status": {Data: []byte(`Package: zlib1g
Status: install ok installed
Multi-Arch: same
Architecture: amd64
Source: zlib (1:1.2)
Version: 1:1.2.13.dfsg-1
Description: one line
 Package: not a field
 .
 more

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: g++
Status: install ok installed
Architecture: all
Version: 4:12.2.0-3
`)},
		"var/lib/apt/lists/m_dists_x_main_binary-amd64_Packages": {Data: []byte("Package: g++\nArchitecture: all\nVersion: 4:12.2.0-3\nSHA256: " + strings.Repeat("a", 64) + "\n\n" +
			"Package: zlib1g\nArchitecture: amd64\nVersion: 1:1.2.12\nSHA256: " + strings.Repeat("b", 64) + "\n")},
		"usr/share/doc/zlib1g/copyright": {Data: []byte("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Zlib\n\nFiles: b\nLicense: Zlib\n\nFiles: a\nLicense: GPL-2+ or Artistic\n")},
		"usr/share/doc/g++/copyright":    {Data: []byte("This is text.\nLicense: none\n")},
	}
	for name, f := range changes {
		root[name] = f
	}
	return root
}

func TestInstalledPackages(t *testing.T) {
	got, err := installedPackages(debianFiles(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{
		{Name: "g++", Version: "4:12.2.0-3", Arch: "all", SHA256: strings.Repeat("a", 64)},
		{Name: "zlib1g", Version: "1:1.2.13.dfsg-1", Arch: "amd64", Source: "zlib (1:1.2)", License: "(GPL-2.0-or-later OR LicenseRef-debian-Artistic) AND Zlib"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for what, status := range map[string]string{"nothing": "", "nothing that is installed": "Package: x\nStatus: deinstall ok config-files\n", "a line without end": "Package: " + strings.Repeat("x", maxLine)} {
		if list, err := installedPackages(debianFiles(fstest.MapFS{"var/lib/dpkg/status": {Data: []byte(status)}})); err == nil {
			t.Errorf("%s: %v", what, list)
		}
	}
}

func TestLicenses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"Expat":                            "MIT",
		"GPL-2":                            "GPL-2.0-only",
		"GPL-3+":                           "GPL-3.0-or-later",
		"LGPL-2.1+":                        "LGPL-2.1-or-later",
		"GFDL-1.3":                         "GFDL-1.3-only",
		"GPL-2.0-or-later":                 "GPL-2.0-or-later",
		"BSD-3-clause and  ISC":            "BSD-3-Clause AND ISC",
		"GPL-2+ or MPL-2.0 and Expat":      "(GPL-2.0-or-later OR (MPL-2.0 AND MIT))",
		"GPL-2+ with OpenSSL exception":    "LicenseRef-debian-GPL-2-with-OpenSSL-exception",
		"GPL-2+ or Artistic, and Expat":    "LicenseRef-debian-GPL-2-or-Artistic-and-Expat",
		"public-domain":                    "LicenseRef-debian-public-domain",
		"<script>\u202e AND MIT":           "LicenseRef-debian-script-AND-MIT",
		"LGPL-2.1+ or GPL-2 or Apache-2.0": "(LGPL-2.1-or-later OR GPL-2.0-only OR Apache-2.0)",
	} {
		if got := licenseExpression(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSBOM(t *testing.T) {
	packages, err := installedPackages(debianFiles(nil))
	if err != nil {
		t.Fatal(err)
	}
	text, err := newSBOM(recipes[Base], packages, testTime)
	if err != nil {
		t.Fatal(err)
	}
	again, err := newSBOM(recipes[Base], slices.Clone(packages), testTime.Local())
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("written twice, it is\n%s\nand\n%s\n%v", text, again, err)
	}
	doc, err := spdxjson.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if doc.SPDXVersion != "SPDX-2.3" || doc.DocumentName != Base || doc.CreationInfo.Created != "2024-05-06T07:08:09Z" || len(doc.Packages) != 3 {
		t.Errorf("document %+v", doc)
	}
	for _, want := range []string{
		`"SPDXID": "SPDXRef-deb-g-plus-plus-all"`, `"versionInfo": "1:1.2.13.dfsg-1"`, `"licenseDeclared": "(GPL-2.0-or-later OR LicenseRef-debian-Artistic) AND Zlib"`,
		`"licenseId": "LicenseRef-debian-Artistic"`, `"referenceLocator": "pkg:deb/debian/g%2B%2B@4%3A12.2.0-3?arch=all&distro=bookworm"`,
		`"relationshipType": "CONTAINS"`, `"sourceInfo": "built from the source package zlib (1:1.2)"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
	other := slices.Clone(packages)
	other[0].Version += "1"
	if changed, err := newSBOM(recipes[Base], other, testTime); err != nil || bytes.Contains(changed, []byte(doc.DocumentNamespace)) {
		t.Errorf("other packages have the same namespace %s, %v", doc.DocumentNamespace, err)
	}

	pins, err := ReadPackages(bytes.NewReader(text))
	if err != nil || len(pinDifferences(pins, packages)) > 0 || len(pins) != len(packages) {
		t.Errorf("read back: %v, %v", pins, err)
	}
	if got := string(preferences(pins)); !strings.Contains(got, "Package: g++\nPin: version 4:12.2.0-3\nPin-Priority: 1001\n\n") {
		t.Errorf("preferences:\n%s", got)
	}
}

func TestPinDifferences(t *testing.T) {
	pins := []Package{{Name: "a", Version: "1", Arch: "all", SHA256: "x"}, {Name: "b", Version: "1", Arch: "all"}}
	for _, tt := range []struct {
		got  []Package
		want []string
	}{
		{[]Package{{Name: "b", Version: "1", Arch: "all", SHA256: "z"}, {Name: "a", Version: "1", Arch: "all", SHA256: "x"}}, nil},
		{[]Package{{Name: "a", Version: "1", Arch: "all", SHA256: "y"}, {Name: "b", Version: "2", Arch: "all"}}, []string{"the file of a 1 is another", "b is 2, not 1"}},
		{[]Package{{Name: "a", Version: "1", Arch: "all", SHA256: "x"}, {Name: "c", Version: "1", Arch: "all"}}, []string{"there is no b", "c was not asked for"}},
	} {
		if got := pinDifferences(pins, tt.got); !slices.Equal(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	err := checkPins(building{recipe: recipes[Base], pins: pins}, nil)
	if !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" || !strings.Contains(err.Error(), "there is no a; there is no b") {
		t.Errorf("%v", err)
	}
	if err := checkPins(building{recipe: recipes[Base]}, pins); err != nil {
		t.Errorf("nothing is pinned: %v", err)
	}
}

// A list of packages cannot change apt's configuration.
func TestReadPackagesRefuses(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":      "",
		"no JSON":      "SPDXVersion: SPDX-2.3",
		"no packages":  `{"spdxVersion":"SPDX-2.3","SPDXID":"SPDXRef-DOCUMENT"}`,
		"a name":       `{"spdxVersion":"SPDX-2.3","SPDXID":"SPDXRef-DOCUMENT","packages":[{"name":"a\nPin: x","SPDXID":"SPDXRef-deb-a-all","versionInfo":"1"}]}`,
		"a version":    `{"spdxVersion":"SPDX-2.3","SPDXID":"SPDXRef-DOCUMENT","packages":[{"name":"aa","SPDXID":"SPDXRef-deb-a-all","versionInfo":"1\nPackage: *"}]}`,
		"no version":   `{"spdxVersion":"SPDX-2.3","SPDXID":"SPDXRef-DOCUMENT","packages":[{"name":"aa","SPDXID":"SPDXRef-deb-a-all"}]}`,
		"no end to it": `{"spdxVersion":"SPDX-2.3"` + strings.Repeat(" ", sbomLimit),
	} {
		if list, err := ReadPackages(strings.NewReader(text)); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%s: %v, %v", what, list, err)
		}
	}
}

// The list is read out of the image, and no container is left of that.
func TestStoreSBOM(t *testing.T) {
	s, f := fakeStore(t)
	var layer bytes.Buffer
	if err := writeTar(t.Context(), &layer, []entry{fileEntry(sbomPath[1:], 0o644, []byte("{}"), testTime)}, testTime); err != nil {
		t.Fatal(err)
	}
	f.add(Base, layer.Bytes(), nil)
	f.add("alpine:3", nil, nil)
	if text, err := s.SBOM(t.Context(), Base); err != nil || string(text) != "{}" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := s.SBOM(t.Context(), "alpine:3"); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "has no SBOM") {
		t.Errorf("of an image without: %q, %v", text, err)
	}
	layer.Reset()
	if err := writeTar(t.Context(), &layer, []entry{fileEntry(sbomPath[1:], 0o644, []byte("{}\x1b[2J"), testTime)}, testTime); err != nil {
		t.Fatal(err)
	}
	f.add("hostile:1", layer.Bytes(), nil)
	if text, err := s.SBOM(t.Context(), "hostile:1"); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
		t.Errorf("of an image in which it is something else: %q, %v", text, err)
	}
	if text, err := s.SBOM(t.Context(), "none:1"); !errors.Is(err, ErrNoImage) {
		t.Errorf("of no image: %q, %v", text, err)
	}
	if f.containers != 0 || f.volumes != 0 {
		t.Errorf("%d containers are left, and %d volumes", f.containers, f.volumes)
	}
}

func FuzzStanzas(f *testing.F) {
	f.Add("Package: a\nVersion: 1\n\nPackage: b\n continued: x\n")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		err := stanzas(strings.NewReader(text), func(s map[string]string) {
			n++
			if s["Package"] == "" {
				t.Error("a stanza without a package")
			}
		})
		if n > strings.Count(text, "Package") && err == nil {
			t.Errorf("%d packages", n)
		}
	})
}

func FuzzReadPackages(f *testing.F) {
	f.Add([]byte(`{"spdxVersion":"SPDX-2.3","SPDXID":"SPDXRef-DOCUMENT","packages":[{"name":"aa","SPDXID":"SPDXRef-deb-aa-all","versionInfo":"1","checksums":[{"algorithm":"SHA256","checksumValue":"x"}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ReadPackages(bytes.NewReader(text))
		if err != nil {
			return
		}
		if n := strings.Count(string(preferences(list)), "\n"); n != 4*len(list) {
			t.Errorf("%d lines of %d packages", n, len(list))
		}
	})
}
