// Package diskimage makes file systems in files, and mounts them: what is written to
// one takes no more of the disk, in bytes or in files, than it was made with, and a
// write of more gets ENOSPC. It is for directories that untrusted commands fill.
// Project quotas would not do: the owner of a file may take it out of a project
// (FS_IOC_FSSETXATTR), and what is then made has no limit.
//
// An image is a sparse file with ext4 in it, mounted through a loop device that goes
// by itself once it is not used. So there is nothing to remove but the mount
// and the file, and both are found from the file's name: see [Mounts]. It takes
// root, loop devices (Linux from 5.8) and the program mkfs.ext4.
//
// The space that an image may take is not set aside: several may together be
// promised more than there is. What is deleted in one is given back.
package diskimage

// MinSize is the least that an image has, in bytes: smaller ones would hold
// little but their own structures.
const MinSize = 16 << 20

// BytesPerFile is for how many bytes of an image there is a file: half of what
// ext4 has otherwise, since commands unpack packages of many small ones.
const BytesPerFile = 8 << 10

// Round is the size that an image has which is to have size bytes.
func Round(size int64) int64 { return size - size%blockSize }

// blockSize is what a file takes at least, in bytes.
const blockSize = 4 << 10

// A Mounted is an image that is mounted.
type Mounted struct {
	File, Dir string
	Deleted   bool // File is gone
}
