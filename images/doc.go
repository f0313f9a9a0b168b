// Package images knows which images sandboxes run on and how an engine gets
// them.
//
// There are two ways. An image of a registry is pulled. Corral's own
// images, which no registry serves, are built on this machine and imported:
// [Default], [Base], [Common] and [Code] from Debian's packages, and [Busybox] from the
// machine's static busybox, two megabytes for tests. Each of them carries the
// digest of the recipe it was built from, so that a later version of Corral
// with another recipe builds it anew.
//
//	store := images.Store{Engine: cli}
//	img, err := store.Ensure(ctx, images.Default, func(e images.Event) { … })
//
// [Store.Ensure] asks no registry when the image is there: it is one request to the
// engine, cheap enough to be made before each start of a sandbox.
//
// Nothing is written to disk but the root file system of a Debian image while
// it is being made, in a directory that is gone afterwards, whatever happened.
// An image travels to any engine as an [Archive], a stream that is the same,
// byte for byte, for the same packages: they are the same image, with the same
// ID, wherever and whenever it is built. [Store.SBOM] says which packages, and
// [Store.Pins] has them used again.
//
// The package does not run containers, knows nothing of what is mounted into
// them, and draws no progress bars: it reports an [Event], and the caller
// draws.
package images
