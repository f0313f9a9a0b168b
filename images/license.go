package images

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

// machineReadable begins the first line of copyright files that programs can
// read, as the Debian policy calls them.
var machineReadable = lazy.Regexp(`(?m)^Format(-Specification)?:\s*\S*(copyright-format|dep5)`)

// licenseOf is the SPDX expression of all that a copyright file of Debian's
// lists; empty if it is for people to read.
func licenseOf(copyright []byte) string {
	head, _, _ := bytes.Cut(copyright, []byte("\n\n"))
	if !machineReadable().Match(head) {
		return ""
	}
	var all []string
	for line := range strings.Lines(string(copyright)) {
		if value, ok := strings.CutPrefix(line, "License:"); ok {
			if e := licenseExpression(strings.TrimSpace(value)); e != "" {
				all = append(all, e)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " AND ")
}

// licenseExpression is what stands after "License:". A comma changes what
// belongs together, so that such a text is taken as one license's name.
func licenseExpression(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" || strings.Contains(text, ",") {
		return licenseID(text)
	}
	alternatives := strings.Split(text, " or ")
	for i, a := range alternatives {
		parts := strings.Split(a, " and ")
		for j, p := range parts {
			parts[j] = licenseID(p)
		}
		alternatives[i] = strings.Join(parts, " AND ")
		if len(parts) > 1 && len(alternatives) > 1 {
			alternatives[i] = "(" + alternatives[i] + ")"
		}
	}
	if len(alternatives) > 1 {
		return "(" + strings.Join(alternatives, " OR ") + ")"
	}
	return alternatives[0]
}

var (
	gnuLicense = lazy.Regexp(`^(A?GPL|LGPL|GFDL)-(\d)(\.\d)?(\.0)?(\+|-only|-or-later)?$`)
	notLetters = lazy.Regexp(`[^A-Za-z0-9.-]+`)
)

// licenseNames are names of Debian's that SPDX has another for.
var licenseNames = map[string]string{
	"apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "artistic-2": "Artistic-2.0", "artistic-2.0": "Artistic-2.0",
	"bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause",
	"bsl-1.0": "BSL-1.0", "boost-1.0": "BSL-1.0", "cc0": "CC0-1.0", "cc0-1.0": "CC0-1.0", "curl": "curl",
	"expat": "MIT", "isc": "ISC", "mit": "MIT", "mpl-1.1": "MPL-1.1", "mpl-2.0": "MPL-2.0", "openssl": "OpenSSL",
	"unlicense": "Unlicense", "x11": "X11", "zlib": "Zlib",
}

// licenseID is a license by its name of SPDX's, or one that only this document
// refers to.
func licenseID(name string) string {
	name = strings.TrimSpace(name)
	if name == "" {
		return ""
	}
	if id, ok := licenseNames[strings.ToLower(name)]; ok {
		return id
	}
	if m := gnuLicense().FindStringSubmatch(name); m != nil {
		minor, which := m[3], "-only"
		minor = cmp.Or(minor, ".0")
		if m[5] == "+" || m[5] == "-or-later" {
			which = "-or-later"
		}
		return m[1] + "-" + m[2] + minor + which
	}
	return licenseRef + strings.Trim(notLetters().ReplaceAllString(name, "-"), "-")
}

// licenseRef begins the names of licenses that are explained in the document.
const licenseRef = "LicenseRef-debian-"

var licenseRefs = lazy.Regexp(licenseRef + `[A-Za-z0-9.-]+`)
