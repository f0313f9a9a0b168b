// Package access says who may do what at a gateway that serves more than its owner:
// roles, the rights that each has, and keys, which are kept as hashes.
package access
