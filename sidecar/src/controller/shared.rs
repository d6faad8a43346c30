//! A controller as it works on whatever process, seat and connection it is given: a program's only one, or
//! one of several.

use std::pin::Pin;
use std::sync::Arc;

use super::flags::{Election, Http};
use super::link::{Calls, Link, Questions};
use super::process::Program;
use super::seat::Seat;
use super::view::{Driver, View};
use crate::flags::Exit;

/// What a program does for its driver.
///
/// It is made once for a process and may begin more than once: what it has found out about API server and
/// driver stays, while caches and books are those of one beginning.
pub trait Controller: 'static {
    /// The driver as its decisions see it.
    type Driver: Driver;

    /// Which program it is.
    const PROGRAM: Program;

    /// `--csi-address`
    fn csi_address(&self) -> &str;

    /// Leader election, if there is to be one.
    fn election(&self) -> Option<&Election>;

    /// The HTTP server, if there is to be one.
    fn http(&self) -> Option<&Http>;

    /// How it makes calls.
    fn calls(&self) -> Calls;

    /// Whether volumes of an in-tree plugin were moved to a driver of this name.
    fn is_migrated(driver: &str) -> bool;

    /// What decisions need to know together with the driver.
    fn settings(&self) -> <Self::Driver as Driver>::Settings;

    /// Finds out what has to be known before the driver is asked what it can do.
    ///
    /// # Errors
    /// How the process ends.
    fn discover(&mut self, _seat: &Seat) -> impl Future<Output = Result<(), Exit>> {
        std::future::ready(Ok(()))
    }

    /// Finds out what has to be known before it leads.
    ///
    /// # Errors
    /// How the process ends.
    fn prepare(
        &mut self,
        _seat: &Seat,
        _driver: &Arc<View<Self::Driver>>,
    ) -> impl Future<Output = Result<(), Exit>> {
        std::future::ready(Ok(()))
    }

    /// Works until it is to end, then finishes what is under way.
    ///
    /// # Errors
    /// How a process ends that it is alone in.
    fn work(
        &self,
        seat: &Seat,
        driver: &Arc<View<Self::Driver>>,
    ) -> impl Future<Output = Result<(), Exit>>;

    /// Whether it begins with such a driver. What it makes of one that becomes such while it works, its view says.
    ///
    /// # Errors
    /// There is nothing that it could do with it.
    fn may_begin(&self, _driver: &Self::Driver) -> Result<(), Exit> {
        Ok(())
    }

    /// What the link has to ask the driver for it.
    fn questions(&self) -> Questions {
        Questions::of::<Self::Driver>(&self.settings())
    }

    /// What it makes of the driver behind `link`.
    ///
    /// # Errors
    /// There is nothing that it could do with such a driver.
    fn view(&self, link: &Arc<Link>, seat: &Seat) -> Result<Arc<View<Self::Driver>>, Exit> {
        let whose = (seat.fence.clone(), seat.name_among_others());
        let view = View::new(Arc::clone(link), self.calls(), self.settings(), whose)?;
        self.may_begin(&view.current())?;
        Ok(view)
    }
}

/// What runs until a controller ends.
pub type Working<'a> = Pin<Box<dyn Future<Output = Result<(), Exit>> + 'a>>;

/// A [`Controller`], whichever it is.
pub trait AnyController {
    /// Which program it is.
    fn program(&self) -> Program;

    /// As [`Controller::csi_address`].
    fn csi_address(&self) -> &str;

    /// As [`Controller::election`].
    fn election(&self) -> Option<&Election>;

    /// As [`Controller::http`].
    fn http(&self) -> Option<&Http>;

    /// As [`Controller::calls`].
    fn calls(&self) -> Calls;

    /// As [`Controller::is_migrated`].
    fn is_migrated(&self, driver: &str) -> bool;

    /// As [`Controller::questions`].
    fn questions(&self) -> Questions;

    /// As [`Controller::discover`].
    fn discover<'a>(&'a mut self, seat: &'a Seat) -> Working<'a>;

    /// As [`Controller::prepare`].
    ///
    /// # Errors
    /// There is nothing that it could do with such a driver.
    fn prepare<'a>(&'a mut self, seat: &'a Seat, link: &Arc<Link>) -> Result<Working<'a>, Exit>;

    /// As [`Controller::work`], which begins with the first poll.
    ///
    /// # Errors
    /// There is nothing that it could do with such a driver.
    fn begin(self: Arc<Self>, seat: Seat, link: &Arc<Link>) -> Result<Working<'static>, Exit>;
}

impl<C: Controller> AnyController for C {
    fn program(&self) -> Program {
        C::PROGRAM
    }

    fn csi_address(&self) -> &str {
        Controller::csi_address(self)
    }

    fn election(&self) -> Option<&Election> {
        Controller::election(self)
    }

    fn http(&self) -> Option<&Http> {
        Controller::http(self)
    }

    fn calls(&self) -> Calls {
        Controller::calls(self)
    }

    fn is_migrated(&self, driver: &str) -> bool {
        C::is_migrated(driver)
    }

    fn questions(&self) -> Questions {
        Controller::questions(self)
    }

    fn discover<'a>(&'a mut self, seat: &'a Seat) -> Working<'a> {
        Box::pin(Controller::discover(self, seat))
    }

    fn prepare<'a>(&'a mut self, seat: &'a Seat, link: &Arc<Link>) -> Result<Working<'a>, Exit> {
        let view = self.view(link, seat)?;
        Ok(Box::pin(async move {
            Controller::prepare(self, seat, &view).await
        }))
    }

    fn begin(self: Arc<Self>, seat: Seat, link: &Arc<Link>) -> Result<Working<'static>, Exit> {
        let view = self.view(link, &seat)?;
        Ok(Box::pin(async move { self.work(&seat, &view).await }))
    }
}
