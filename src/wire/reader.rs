//! A bounded cursor over foreign bytes: the only way to slice them.

/// Why a read stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Fewer bytes are left than the field needs.
    Short { offset: usize, needed: usize, left: usize },
    /// Bytes follow the last field.
    Trailing { offset: usize, left: usize },
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Short { offset, needed, left } => {
                write!(f, "expected {needed} bytes at offset {offset}; {left} are left")
            }
            Self::Trailing { offset, left } => {
                write!(f, "expected the end at offset {offset}; {left} bytes follow")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads fields one after another; never past the end, never twice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Returns how many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Takes the next `len` bytes.
    ///
    /// Errors: `Short`.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], ReadError> {
        let short = ReadError::Short { offset: self.at, needed: len, left: self.left() };
        let end = self.at.checked_add(len).ok_or(short)?;
        let taken = self.bytes.get(self.at..end).ok_or(short)?;
        self.at = end;
        Ok(taken)
    }

    /// Takes the next `N` bytes as an array.
    ///
    /// Errors: `Short`.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// Takes one byte.
    ///
    /// Errors: `Short`.
    pub fn u8(&mut self) -> Result<u8, ReadError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Takes a little-endian `u16`.
    ///
    /// Errors: `Short`.
    pub fn u16_le(&mut self) -> Result<u16, ReadError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Takes a little-endian three-byte integer.
    ///
    /// Errors: `Short`.
    pub fn u24_le(&mut self) -> Result<u32, ReadError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Takes a little-endian `u32`.
    ///
    /// Errors: `Short`.
    pub fn u32_le(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Takes a little-endian `u64`.
    ///
    /// Errors: `Short`.
    pub fn u64_le(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Takes a big-endian `u32`.
    ///
    /// Errors: `Short`.
    pub fn u32_be(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Takes a big-endian `u64`.
    ///
    /// Errors: `Short`.
    pub fn u64_be(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Ends the reading.
    ///
    /// Errors: `Trailing` if bytes are left.
    pub fn finish(self) -> Result<(), ReadError> {
        match self.left() {
            0 => Ok(()),
            left => Err(ReadError::Trailing { offset: self.at, left }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16_le(), Ok(0x0201));
        assert_eq!(reader.u16_le(), Err(ReadError::Short { offset: 2, needed: 2, left: 1 }));
        assert_eq!(reader.u8(), Ok(3));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn a_length_near_the_top_does_not_overflow() {
        let mut reader = Reader::new(&[0; 4]);
        reader.u8().unwrap();
        assert!(reader.take(usize::MAX).is_err());
    }

    #[test]
    fn refuses_trailing_bytes() {
        assert_eq!(Reader::new(&[0]).finish(), Err(ReadError::Trailing { offset: 0, left: 1 }));
    }
}
