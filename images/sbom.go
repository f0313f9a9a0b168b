package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/corral-exec/corral"
)

const (
	// sbomPath is where an image has the list of what it is made of.
	sbomPath = "/var/lib/db/sbom/image.spdx.json"
	// sbomLimit is more than any has.
	sbomLimit = 16 << 20

	noAssertion = "NOASSERTION"
)

// SBOM is the software bill of materials of a Debian image of Corral's own, as
// the image has it: a document of SPDX 2.3 in JSON that lists the packages with
// version, architecture, digest and license. It is about what Corral put into
// the image, not about what an image that is built on it adds.
func (s Store) SBOM(ctx context.Context, ref string) ([]byte, error) {
	img, found, err := s.lookup(ctx, ref)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, corral.Errorf(corral.ErrInvalid, "build or pull it first", "cannot read the SBOM of image %s: %w", ref, ErrNoImage)
	}
	text, err := s.Engine.ReadFile(ctx, img.ID, sbomPath, sbomLimit)
	if cerrdefs.IsNotFound(err) {
		hint := "those of " + strings.Join([]string{Base, Default, Common, Code}, ", ") + " have one"
		if img.Stale {
			hint = "it is of an older recipe: build it anew"
		}
		return nil, corral.Errorf(corral.ErrInvalid, hint, "image %s has no SBOM", ref)
	}
	if err == nil && !json.Valid(text) { // it is another's image, and what it has there may be meant for a terminal
		return nil, corral.Errorf(corral.ErrInvalid, "Corral did not write it: look at it in the image", "the SBOM of image %s (%s) is no JSON", ref, sbomPath)
	}
	return text, engineError(ctx, "read the SBOM of image "+ref, err)
}

// newSBOM lists the packages of the image of r. Nothing in it depends on where
// and when it is written.
func newSBOM(r recipe, packages []Package, created time.Time) ([]byte, error) {
	id := sha256.New()
	fmt.Fprintln(id, r.digest())
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: r.name,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "corral"}},
			Created:  created.UTC().Format(time.RFC3339),
		},
		Packages: []*spdx.Package{{
			PackageName: r.name, PackageSPDXIdentifier: "image", PrimaryPackagePurpose: "CONTAINER",
			PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		}},
		Relationships: []*spdx.Relationship{{RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", "image"), Relationship: common.TypeRelationshipDescribe}},
	}
	var refs []string
	for _, p := range packages {
		fmt.Fprintln(id, p.key(), p.SHA256)
		doc.Packages = append(doc.Packages, spdxPackage(p))
		doc.Relationships = append(doc.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", "image"), RefB: common.MakeDocElementID("", string(spdxID(p))), Relationship: common.TypeRelationshipContains,
		})
		refs = append(refs, licenseRefs().FindAllString(p.License, -1)...)
	}
	slices.Sort(refs)
	for _, ref := range slices.Compact(refs) {
		name := strings.TrimPrefix(ref, licenseRef)
		doc.OtherLicenses = append(doc.OtherLicenses, &spdx.OtherLicense{
			LicenseIdentifier: ref, LicenseName: name,
			ExtractedText: "The text is in /usr/share/doc/PACKAGE/copyright of the packages that this license is declared of, under the name " + name + ".",
		})
	}
	doc.DocumentNamespace = "https://github.com/corral-exec/corral/sbom/" + url.PathEscape(r.name) + "-" + hex.EncodeToString(id.Sum(nil))
	var out bytes.Buffer
	if err := spdxjson.Write(doc, &out, spdxjson.Indent(" "), spdxjson.EscapeHTML(false)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func spdxID(p Package) common.ElementID {
	return common.ElementID("deb-" + strings.ReplaceAll(p.Name, "+", "-plus") + "-" + p.Arch)
}

func spdxPackage(p Package) *spdx.Package {
	out := &spdx.Package{
		PackageName: p.Name, PackageSPDXIdentifier: spdxID(p), PackageVersion: p.Version,
		PackageSupplier:         &common.Supplier{SupplierType: "Organization", Supplier: "Debian"},
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=%s", url.QueryEscape(p.Name), url.QueryEscape(p.Version), p.Arch, suite),
		}},
	}
	if p.SHA256 != "" {
		out.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: p.SHA256}}
	}
	if p.License != "" {
		out.PackageLicenseDeclared = p.License
	}
	if p.Source != "" {
		out.PackageSourceInfo = "built from the source package " + p.Source
	}
	return out
}

// ReadPackages reads an SBOM of one of Corral's images: the packages to pin for
// another build of it.
func ReadPackages(sbom io.Reader) ([]Package, error) {
	var doc spdx.Document
	text, err := io.ReadAll(io.LimitReader(sbom, sbomLimit+1))
	if err == nil && len(text) > sbomLimit {
		err = fmt.Errorf("it has more than %d bytes", sbomLimit)
	}
	if err == nil {
		err = spdxjson.ReadInto(bytes.NewReader(text), &doc)
	}
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "give a document of SPDX in JSON that Corral wrote", "cannot read the SBOM: %w", err)
	}
	var list []Package
	for _, p := range doc.Packages {
		if p == nil || !strings.HasPrefix(string(p.PackageSPDXIdentifier), "deb-") {
			continue
		}
		out := Package{Name: p.PackageName, Version: p.PackageVersion, Arch: string(p.PackageSPDXIdentifier[strings.LastIndexByte(string(p.PackageSPDXIdentifier), '-')+1:])}
		for _, c := range p.PackageChecksums {
			if c.Algorithm == common.SHA256 {
				out.SHA256 = c.Value
			}
		}
		if !packageName().MatchString(out.Name) || !packageVersion().MatchString(out.Version) {
			return nil, corral.Errorf(corral.ErrInvalid, "give a document of SPDX in JSON that Corral wrote", "cannot read the SBOM: %q %q is no package of Debian's and its version", out.Name, out.Version)
		}
		list = append(list, out)
	}
	if len(list) == 0 {
		return nil, corral.Errorf(corral.ErrInvalid, "give the SBOM of one of Corral's Debian images", "the SBOM lists no package of Debian's")
	}
	return list, nil
}
