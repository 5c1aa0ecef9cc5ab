//go:build !unix

package config

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: files have no owner here that a program could set.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
