package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Save writes the file, if anything changed: whoever reads it finds the old text or the new one, whole. Mode and
// owner stay. A file that was changed since it was read is left alone.
func (i *RealmImport) Save() error {
	if bytes.Equal(i.before, i.after) {
		return nil
	}
	if err := replaceFile(i.path, i.before, i.after); err != nil {
		return fmt.Errorf("writing %s: %w", i.path, err)
	}
	return nil
}

var errChanged = errors.New("it was changed meanwhile; nothing was written, start again")

// replaceFile puts another file in the place of the one at the path, which must still hold what it did.
func replaceFile(path string, before, after []byte) error {
	path, err := filepath.EvalSymlinks(path) // so that a link stays one
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".gateway-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of no effect once it has its name
	_, err = f.Write(after)
	err = errors.Join(err, keepOwner(f, info), f.Chmod(info.Mode()), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
		return errors.Join(errChanged, err)
	}
	return os.Rename(f.Name(), path)
}
