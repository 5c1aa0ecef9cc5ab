package proxy

// SpoilBuffers overwrites the buffers that wait for their next use, again and again until done is closed: whoever
// still looks at one that was given back sees what nobody sent, and the race detector sees it too.
func SpoilBuffers(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		buf := copyBuffers.Get().(*[]byte)
		for i := range *buf {
			(*buf)[i] = 0xdb
		}
		copyBuffers.Put(buf)
	}
}

// Join is what switched connections are given to.
var Join = join
