package files

// Portable is d by os.Root, as on systems without openat2.
func Portable(d Directory) Directory {
	d.portable = true
	return d
}
