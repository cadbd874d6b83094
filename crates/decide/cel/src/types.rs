//! Types of expressions, and which types fit where others are expected.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Any type, known only when the expression is evaluated.
    Dyn,
    /// The type of an expression with a problem that is already reported.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Optional(Arc<Type>),
    Meta(Arc<Type>),
    /// A type of a library, by its name.
    Opaque(&'static str),
    Object(Arc<ObjectType>),
    /// A type that is still to be found.
    Param(usize),
}

#[derive(Debug, PartialEq)]
pub struct ObjectType {
    pub name: &'static str,
    pub fields: BTreeMap<Arc<str>, Type>,
}

impl Type {
    pub const QUANTITY: Type = Type::Opaque("kubernetes.Quantity");
    pub const SEMVER: Type = Type::Opaque("kubernetes.Semver");
    pub const IP: Type = Type::Opaque("net.IP");
    pub const CIDR: Type = Type::Opaque("net.CIDR");
    pub const URL: Type = Type::Opaque("kubernetes.URL");
    pub const NAMED_FORMAT: Type = Type::Opaque("kubernetes.NamedFormat");

    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    pub fn optional(value: Type) -> Type {
        Type::Optional(Arc::new(value))
    }

    pub fn object<N: Into<Arc<str>>>(
        name: &'static str,
        fields: impl IntoIterator<Item = (N, Type)>,
    ) -> Type {
        let fields = fields.into_iter().map(|(name, field)| (name.into(), field)).collect();
        Type::Object(Arc::new(ObjectType { name, fields }))
    }

    pub fn type_of(inner: Type) -> Type {
        Type::Meta(Arc::new(inner))
    }

    /// Whether any value may have the type.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    pub fn runtime_name(&self) -> &'static str {
        match self {
            Type::Dyn | Type::Param(_) => "dyn",
            Type::Error => "error",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Optional(_) => "optional_type",
            Type::Meta(_) => "type",
            Type::Opaque(name) => name,
            Type::Object(object) => object.name,
        }
    }

    /// Whether a value whose type has this name can be an argument of this type.
    pub fn accepts(&self, type_name: &str) -> bool {
        matches!(self, Type::Dyn | Type::Param(_)) || self.runtime_name() == type_name
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Type::Optional(value) => write!(f, "optional_type({value})"),
            Type::Meta(inner) => write!(f, "type({inner})"),
            other => f.write_str(other.runtime_name()),
        }
    }
}

/// Types that are found for parameters while an expression is checked.
#[derive(Debug, Default)]
pub(crate) struct Substitution {
    found: Vec<Option<Type>>,
    /// Earlier values, to go back when an overload does not fit.
    trail: Vec<(usize, Option<Type>)>,
    /// Steps that are left. Types can be much larger than the text of an expression.
    steps: usize,
    depth: usize,
}

/// The types of an expression are too large.
#[derive(Debug)]
pub(crate) struct TooComplex;

impl Substitution {
    pub fn new() -> Self {
        Substitution { steps: 200_000, ..Self::default() }
    }

    pub fn parameter(&mut self) -> Type {
        self.found.push(None);
        Type::Param(self.found.len() - 1)
    }

    /// Takes one step down into a type.
    fn deeper<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T, TooComplex>) -> Result<T, TooComplex> {
        const MAX_DEPTH: usize = 400;
        self.steps = self.steps.checked_sub(1).ok_or(TooComplex)?;
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH { Err(TooComplex) } else { step(self) };
        self.depth -= 1;
        result
    }

    fn set(&mut self, parameter: usize, to: Type) {
        let earlier = self.found[parameter].replace(to);
        self.trail.push((parameter, earlier));
    }

    /// Whether all types fit; if not, nothing is changed.
    pub fn all_assignable(&mut self, to: &[Type], from: &[Type]) -> Result<bool, TooComplex> {
        if to.len() != from.len() {
            return Ok(false);
        }
        let mark = self.trail.len();
        for (to, from) in to.iter().zip(from) {
            if !self.fits(to, from)? {
                while self.trail.len() > mark {
                    if let Some((parameter, earlier)) = self.trail.pop() {
                        self.found[parameter] = earlier;
                    }
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a type fits where another one is expected; if not, nothing is changed.
    pub fn assignable(&mut self, to: &Type, from: &Type) -> Result<bool, TooComplex> {
        self.all_assignable(std::slice::from_ref(to), std::slice::from_ref(from))
    }

    fn fits(&mut self, to: &Type, from: &Type) -> Result<bool, TooComplex> {
        self.deeper(|this| this.parts_fit(to, from))
    }

    fn parts_fit(&mut self, to: &Type, from: &Type) -> Result<bool, TooComplex> {
        if let Type::Param(parameter) = from {
            let (is_valid, was_known) = self.can_be(to, *parameter)?;
            if is_valid || was_known {
                return Ok(is_valid);
            }
        }
        if let Type::Param(parameter) = to {
            return Ok(self.can_be(from, *parameter)?.0);
        }
        if to.is_dyn() || from.is_dyn() {
            return Ok(true);
        }
        Ok(match (to, from) {
            (
                Type::Null,
                Type::Optional(_) | Type::Opaque(_) | Type::Object(_) | Type::Duration | Type::Timestamp,
            ) => true,
            (Type::List(to), Type::List(from)) | (Type::Optional(to), Type::Optional(from)) => {
                self.fits(to, from)?
            }
            (Type::Map(to), Type::Map(from)) => self.fits(&to.0, &from.0)? && self.fits(&to.1, &from.1)?,
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::Object(to), Type::Object(from)) => Arc::ptr_eq(to, from) || to == from,
            (to, from) => to == from,
        })
    }

    /// Whether a parameter can stand for a type, and whether it already stood for one.
    fn can_be(&mut self, wanted: &Type, parameter: usize) -> Result<(bool, bool), TooComplex> {
        if let Some(known) = self.found[parameter].clone() {
            if self.fits(wanted, &known)? {
                let general = if self.is_less_specific(wanted, &known)? { wanted.clone() } else { known };
                if general != Type::Param(parameter) {
                    self.set(parameter, general);
                }
                return Ok((true, true));
            }
            return Ok((false, true));
        }
        if self.contains(wanted, parameter)? {
            return Ok((false, false));
        }
        self.set(parameter, wanted.clone());
        Ok((true, false))
    }

    fn contains(&mut self, within: &Type, parameter: usize) -> Result<bool, TooComplex> {
        self.deeper(|this| {
            Ok(match within {
                Type::Param(other) if *other == parameter => true,
                Type::Param(other) => match this.found[*other].clone() {
                    Some(found) => this.contains(&found, parameter)?,
                    None => false,
                },
                Type::List(inner) | Type::Optional(inner) | Type::Meta(inner) => {
                    this.contains(inner, parameter)?
                }
                Type::Map(entry) => {
                    this.contains(&entry.0, parameter)? || this.contains(&entry.1, parameter)?
                }
                _ => false,
            })
        })
    }

    /// Whether the first type is as general as the second one, or more.
    fn is_less_specific(&mut self, a: &Type, b: &Type) -> Result<bool, TooComplex> {
        self.deeper(|this| {
            Ok(match (a, b) {
                (Type::Dyn | Type::Param(_), _) => true,
                (_, Type::Dyn | Type::Param(_)) => false,
                (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                    this.is_less_specific(a, b)?
                }
                (Type::Map(a), Type::Map(b)) => {
                    this.is_less_specific(&a.0, &b.0)? && this.is_less_specific(&a.1, &b.1)?
                }
                (a, b) => a == b,
            })
        })
    }

    /// The more general one of two types that fit each other.
    pub fn most_general(&mut self, a: Type, b: Type) -> Result<Type, TooComplex> {
        Ok(if self.is_less_specific(&a, &b)? { a } else { b })
    }

    /// The type with found types instead of parameters; with `to_dyn`, parameters that are left become dyn.
    pub fn resolve(&mut self, t: &Type, to_dyn: bool) -> Result<Type, TooComplex> {
        self.deeper(|this| {
            Ok(match t {
                Type::Param(parameter) => match this.found[*parameter].clone() {
                    Some(found) => this.resolve(&found, to_dyn)?,
                    None if to_dyn => Type::Dyn,
                    None => t.clone(),
                },
                Type::List(inner) => Type::list(this.resolve(inner, to_dyn)?),
                Type::Optional(inner) => Type::optional(this.resolve(inner, to_dyn)?),
                Type::Meta(inner) => Type::type_of(this.resolve(inner, to_dyn)?),
                Type::Map(entry) => {
                    Type::map(this.resolve(&entry.0, to_dyn)?, this.resolve(&entry.1, to_dyn)?)
                }
                other => other.clone(),
            })
        })
    }
}
